// Reads `ReloadConfigRequest` from its bytes, as protobuf merges fields that come again. What it may list is bounded while
// it is read: two bytes are a model, and one is a version.

import { ORDER_LIMITS } from "@winnow/cluster";
import { VARINT_BYTES_MAX, WinnowError } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { readerOf } from "../client-message.ts";

/** `ModelConfig`. */
export interface ModelConfig {
  readonly name: string;
  readonly basePath: string;
  readonly platform: string;
  readonly policy: PolicyMessage;
  readonly labels: ReadonlyMap<string, bigint>;
}

/** `ServableVersionPolicy`; "none": not given. */
export type PolicyMessage =
  | { readonly kind: "none" | "all" }
  | { readonly kind: "latest"; readonly count: number }
  | { readonly kind: "specific"; readonly versions: readonly bigint[] };

/** Bytes of a request: those of the longest list that is kept. */
const BYTES_MAX = 2 ** 20;
const NO_POLICY: PolicyMessage = { kind: "none" };

/** The models of a `ReloadConfigRequest`; `undefined` if it has no list of them. @throws WinnowError INVALID_ARGUMENT */
export function readReloadRequest(bytes: Uint8Array): readonly ModelConfig[] | undefined {
  if (bytes.length > BYTES_MAX) {
    refuse(`the list of models has ${bytes.length} bytes; at most ${BYTES_MAX} are allowed`);
  }
  let models: ModelConfig[] | undefined;
  const reader = readerOf(bytes);
  while (reader.next()) if (reader.field === 1) models = readServerConfig(reader.message(), models);
  return models;
}

/** `ModelServerConfig`, merged into one that came before: of its two fields, the last one counts. */
function readServerConfig(
  reader: ProtobufReader,
  before: ModelConfig[] | undefined,
): ModelConfig[] | undefined {
  let models = before;
  while (reader.next()) {
    if (reader.field === 1) readList(reader.message(), (models ??= []));
    else if (reader.field === 2) models = undefined;
  }
  return models;
}

function readList(list: ProtobufReader, into: ModelConfig[]): void {
  while (list.next()) {
    if (list.field !== 1) continue;
    if (into.length === ORDER_LIMITS.models) refuse(`it lists more than ${into.length} models`);
    into.push(readModel(list.message()));
  }
}

function readModel(reader: ProtobufReader): ModelConfig {
  let [name, basePath, platform] = ["", "", ""];
  let policy = NO_POLICY;
  const labels = new Map<string, bigint>();
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) basePath = reader.text();
    else if (reader.field === 4) platform = reader.text();
    else if (reader.field === 7) policy = readPolicy(reader.message(), policy);
    else if (reader.field === 8) readLabel(reader.message(), labels);
  }
  return { name, basePath, platform, policy, labels };
}

function readPolicy(reader: ProtobufReader, before: PolicyMessage): PolicyMessage {
  let policy = before;
  while (reader.next()) {
    if (reader.field === 100) policy = readLatest(reader.message(), policy);
    else if (reader.field === 101) policy = { kind: "all" };
    else if (reader.field === 102) policy = readSpecific(reader.message(), policy);
  }
  return policy;
}

function readLatest(reader: ProtobufReader, before: PolicyMessage): PolicyMessage {
  let count = before.kind === "latest" ? before.count : 0;
  while (reader.next()) if (reader.field === 1) count = reader.int32() >>> 0;
  return { kind: "latest", count };
}

function readSpecific(reader: ProtobufReader, before: PolicyMessage): PolicyMessage {
  const versions = before.kind === "specific" ? [...before.versions] : [];
  const { versions: max } = ORDER_LIMITS;
  while (reader.next()) {
    if (reader.field !== 1) continue;
    const isLong = reader.to - reader.from > max * VARINT_BYTES_MAX;
    if (!isLong) reader.int64s(versions);
    if (isLong || versions.length > max) refuse(`a model names more than ${max} versions`);
  }
  return { kind: "specific", versions };
}

function readLabel(reader: ProtobufReader, into: Map<string, bigint>): void {
  let label = "";
  let version = 0n;
  while (reader.next()) {
    if (reader.field === 1) label = reader.text();
    else if (reader.field === 2) version = reader.int64();
  }
  into.set(label, version);
  if (into.size > ORDER_LIMITS.labels) {
    refuse(`a model has more than ${ORDER_LIMITS.labels} labels`);
  }
}

function refuse(problem: string): never {
  throw new WinnowError("INVALID_ARGUMENT", `Cannot reload: ${problem}`);
}
