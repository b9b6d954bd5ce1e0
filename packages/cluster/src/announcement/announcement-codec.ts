// Announcements as messages and as JSON, and back. Both forms have the fields of the proto message,
// so one reader checks both: a record of a store is trusted as little as a stream. Held partitions
// travel as a bitmap and their checksum shares packed: 1024 partitions take about 6 KB.

import {
  ANNOUNCED_NAME,
  TABLE_SOURCES_MAX,
  WinnowError,
  codeOfGrpcStatus,
  fingerprint,
  grpcStatusOf,
  incarnation,
  workerId,
} from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import { VERSIONS_ANNOUNCED_MAX } from "./announcement.ts";
import type {
  Announcement,
  HeldPartition,
  TableHolding,
  VersionHolding,
  WorkerState,
} from "./announcement.ts";
import { INCARNATION_MAX } from "./succession.ts";
import { ORDER_NUMBER_MAX, readMark } from "../orders/models-order.ts";
import type { OrderMark } from "../orders/models-order.ts";
import { parseAddress } from "../trust/worker-address.ts";

/** An announcement with the field names of the proto message. */
export interface AnnouncementMessage {
  readonly worker_id: string;
  readonly incarnation: number;
  readonly address: string;
  readonly state: string;
  readonly accelerator: string;
  readonly device: string;
  readonly memory_used_bytes: number;
  readonly memory_capacity_bytes: number;
  readonly versions: VersionMessage[];
  readonly order_number: number;
  readonly order_id: string;
  readonly release: string;
  readonly placement: string;
  readonly machine: string;
}

interface VersionMessage {
  readonly model: string;
  readonly version: number;
  readonly fingerprint: string;
  readonly state: string;
  readonly error_code: number;
  readonly error_message: string;
  readonly tables: TableMessage[];
  readonly serving: boolean;
  readonly update_bytes: number;
}

interface TableMessage {
  readonly table: number;
  readonly partitions: number;
  readonly held: Buffer;
  readonly shares: Buffer;
  readonly sources: number;
}

const TEXT_CHARACTERS_MAX = 256;
const MESSAGE_CHARACTERS_MAX = 1024;
const TABLES_MAX = 4096;
const PARTITIONS_MAX = 65_536;
/** Partitions and checksum shares of all tables together: they bound the cost of reading. */
const ALL_PARTITIONS_MAX = 4_194_304;
const ALL_SHARES_MAX = 1_048_576;
// oxlint-disable-next-line no-control-regex -- that is what it keeps out
const PRINTABLE = /^[^\u0000-\u001f\u007f]{0,256}$/u;
const WORKER_STATES: ReadonlySet<WorkerState> = new Set<WorkerState>([
  "starting",
  "ready",
  "draining",
]);
const VERSION_STATES: ReadonlySet<VersionHolding["state"]> = new Set<VersionHolding["state"]>([
  "loading",
  "ready",
  "failed",
  "unloading",
]);

/** An announcement as a proto message. */
export function encodeAnnouncement(announcement: Announcement): AnnouncementMessage {
  return {
    worker_id: announcement.workerId,
    incarnation: announcement.incarnation,
    address: announcement.address,
    state: announcement.state,
    accelerator: printable(announcement.accelerator),
    device: printable(announcement.device),
    memory_used_bytes: Math.round(announcement.memoryUsedBytes),
    memory_capacity_bytes: Math.round(announcement.memoryCapacityBytes),
    versions: announcement.versions.map((holding) => ({
      model: holding.model,
      version: holding.version,
      fingerprint: holding.fingerprint ?? "",
      state: holding.state,
      error_code: holding.error === undefined ? 0 : grpcStatusOf(holding.error.code),
      error_message: (holding.error?.message ?? "").slice(0, MESSAGE_CHARACTERS_MAX),
      tables: holding.tables.map(encodeTable),
      serving: holding.serving ?? false,
      update_bytes: holding.updateBytes ?? 0,
    })),
    order_number: announcement.order?.number ?? 0,
    order_id: announcement.order?.id ?? "",
    release: printable(announcement.release ?? ""),
    placement: printable(announcement.placement ?? ""),
    machine: printable(announcement.machine ?? ""),
  };
}

/** Whether a text can be a worker's id. */
export const isWorkerId = (id: string): boolean => ANNOUNCED_NAME.test(id);

/** Checks a worker's id from any source. @throws WinnowError INVALID_ARGUMENT */
export function decodeWorkerId(id: unknown): WorkerId {
  if (typeof id === "string" && isWorkerId(id)) return workerId(id);
  throw new WinnowError("INVALID_ARGUMENT", "Malformed worker id");
}

/** Partitions and checksum shares of the tables that were read so far. */
interface AnnouncedSize {
  partitions: number;
  shares: number;
}

/** The name that a driver gave its device, without control characters that break log lines. */
const printable = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- that is what it takes out
  text.replaceAll(/[\u0000-\u001f\u007f]/g, " ").slice(0, TEXT_CHARACTERS_MAX);

/** Checks a message from any source. @throws WinnowError INVALID_ARGUMENT naming the field */
export function decodeAnnouncement(message: unknown): Announcement {
  const fields = new Fields(message, "announcement");
  const address = fields.text("address");
  if (parseAddress(address) === undefined) throw fields.refusal("address");
  const size: AnnouncedSize = { partitions: 0, shares: 0 };
  const order = decodeMark(fields);
  return {
    workerId: decodeWorkerId(fields.text("worker_id")),
    incarnation: incarnation(fields.count("incarnation", INCARNATION_MAX)),
    address,
    state: fields.oneOf("state", WORKER_STATES),
    accelerator: fields.text("accelerator", PRINTABLE),
    device: fields.text("device", PRINTABLE),
    memoryUsedBytes: fields.count("memory_used_bytes"),
    memoryCapacityBytes: fields.count("memory_capacity_bytes"),
    versions: fields
      .list("versions", VERSIONS_ANNOUNCED_MAX)
      .map((version) => decodeVersion(version, size)),
    ...(order && { order }),
    ...saidText(fields, "release"),
    ...saidText(fields, "placement"),
    ...saidText(fields, "machine"),
  };
}

/** A text field that older releases do not send. */
function saidText<Name extends string>(
  fields: Fields,
  name: Name,
): { readonly [key in Name]?: string } {
  const text = fields.has(name) ? fields.text(name, PRINTABLE) : "";
  return text === "" ? {} : ({ [name]: text } as { readonly [key in Name]: string });
}

/** The mark of the models order; workers of releases without orders send neither field. */
function decodeMark(fields: Fields): OrderMark | undefined {
  const number = fields.has("order_number") ? fields.count("order_number", ORDER_NUMBER_MAX) : 0;
  const id = fields.has("order_id") ? fields.text("order_id") : "";
  try {
    return readMark(number, id);
  } catch {
    throw fields.refusal("order_id");
  }
}

/** An announcement as one JSON text. */
export function announcementToJson(announcement: Announcement): string {
  return JSON.stringify(encodeAnnouncement(announcement), (_, value: unknown) =>
    isSerializedBuffer(value) ? Buffer.from(value.data).toString("base64") : value,
  );
}

/** Checks a JSON text from any source. @throws WinnowError INVALID_ARGUMENT */
export function announcementFromJson(text: string): Announcement {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", "An announcement is not JSON", { cause });
  }
  return decodeAnnouncement(message);
}

function encodeTable({ table, partitions, held }: TableHolding): TableMessage {
  const sources = held[0]?.shares.length ?? 0;
  const bitmap = Buffer.alloc(Math.ceil(partitions / 8));
  const shares = Buffer.alloc(held.length * sources * 4);
  const ascending = held.toSorted((a, b) => a.partition - b.partition);
  for (const [index, replica] of ascending.entries()) {
    bitmap[replica.partition >> 3]! |= 1 << (replica.partition & 7);
    for (const [source, share] of replica.shares.entries()) {
      shares.writeUInt32LE(share >>> 0, (index * sources + source) * 4);
    }
  }
  return { table, partitions, held: bitmap, shares, sources };
}

function decodeVersion(message: unknown, size: AnnouncedSize): VersionHolding {
  const fields = new Fields(message, "version");
  const print = fields.text("fingerprint");
  const code = fields.count("error_code");
  const tables = fields.list("tables", TABLES_MAX).map((table) => decodeTable(table, size));
  if (new Set(tables.map(({ table }) => table)).size !== tables.length) {
    throw fields.refusal("tables");
  }
  if (print !== "" && !ANNOUNCED_NAME.test(print)) throw fields.refusal("fingerprint");
  // Workers of releases without item updates do not send it.
  const updateBytes = fields.has("update_bytes") ? fields.count("update_bytes") : 0;
  return {
    model: fields.text("model", ANNOUNCED_NAME),
    version: fields.count("version"),
    fingerprint: print === "" ? undefined : fingerprint(print),
    state: fields.oneOf("state", VERSION_STATES),
    error:
      code === 0
        ? undefined
        : { code: codeOfGrpcStatus(code), message: fields.text("error_message") },
    tables,
    ...(fields.flag("serving") ? { serving: true } : {}),
    ...(updateBytes === 0 ? {} : { updateBytes }),
  };
}

function decodeTable(message: unknown, size: AnnouncedSize): TableHolding {
  const fields = new Fields(message, "table");
  const partitions = fields.count("partitions", PARTITIONS_MAX);
  const sources = fields.count("sources", TABLE_SOURCES_MAX);
  size.partitions += partitions;
  size.shares += partitions * sources;
  if (size.partitions > ALL_PARTITIONS_MAX || size.shares > ALL_SHARES_MAX) {
    throw fields.refusal("partitions");
  }
  const bitmap = fields.bytes("held");
  const shares = fields.bytes("shares");
  if (bitmap.length !== Math.ceil(partitions / 8)) throw fields.refusal("held");
  const held: HeldPartition[] = [];
  for (let bit = 0; bit < bitmap.length * 8; bit += 1) {
    if ((bitmap[bit >> 3]! & (1 << (bit & 7))) === 0) continue;
    const at = held.length * sources * 4;
    if (bit >= partitions || at + sources * 4 > shares.length) throw fields.refusal("held");
    held.push({
      partition: bit,
      shares: Array.from({ length: sources }, (_, source) => shares.readUInt32LE(at + source * 4)),
    });
  }
  if (held.length * sources * 4 !== shares.length) throw fields.refusal("shares");
  return { table: fields.count("table", TABLES_MAX), partitions, held };
}

/** Checked access to the fields of a message of unknown content. */
class Fields {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #name: string;

  constructor(message: unknown, name: string) {
    this.#name = name;
    if (typeof message !== "object" || message === null) throw this.refusal("message");
    this.#values = message as Readonly<Record<string, unknown>>;
  }

  has(field: string): boolean {
    return this.#values[field] !== undefined;
  }

  text(field: string, pattern?: RegExp): string {
    const value = this.#values[field];
    if (typeof value !== "string" || value.length > MESSAGE_CHARACTERS_MAX) {
      throw this.refusal(field);
    }
    if (pattern !== undefined && !pattern.test(value)) throw this.refusal(field);
    return value;
  }

  count(field: string, max: number = Number.MAX_SAFE_INTEGER): number {
    const value = this.#values[field];
    if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > max) {
      throw this.refusal(field);
    }
    return value as number;
  }

  flag(field: string): boolean {
    return this.#values[field] === true;
  }

  oneOf<Value extends string>(field: string, allowed: ReadonlySet<Value>): Value {
    const value = this.#values[field];
    if (!allowed.has(value as Value)) throw this.refusal(field);
    return value as Value;
  }

  list(field: string, lengthMax: number): readonly unknown[] {
    const value = this.#values[field];
    if (!Array.isArray(value) || value.length > lengthMax) throw this.refusal(field);
    return value as readonly unknown[];
  }

  /** A bytes field: bytes in a proto message, base64 text in JSON. */
  bytes(field: string): Buffer {
    const value = this.#values[field];
    if (value instanceof Uint8Array) {
      return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    if (typeof value === "string") return Buffer.from(value, "base64");
    throw this.refusal(field);
  }

  refusal(field: string): WinnowError {
    return new WinnowError("INVALID_ARGUMENT", `Malformed announcement: ${this.#name}.${field}`);
  }
}

function isSerializedBuffer(value: unknown): value is { readonly data: number[] } {
  return typeof value === "object" && value !== null && "type" in value && value.type === "Buffer";
}
