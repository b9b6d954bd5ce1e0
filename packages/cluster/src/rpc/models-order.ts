// The order to replace the models of a worker, as a message and back. It comes from clients of the
// router and ends at a worker's file system, so everything in it is bounded here; which paths a worker
// accepts is the worker's own decision.

import { WinnowError, excerpt } from "@winnow/core";
import type { OrderedModel as OrderedModelMessage } from "./generated/winnow/shard/v1/OrderedModel.ts";
import type { OrderedModel__Output } from "./generated/winnow/shard/v1/OrderedModel.ts";
import type { SetModelsRequest } from "./generated/winnow/shard/v1/SetModelsRequest.ts";
import type { SetModelsRequest__Output } from "./generated/winnow/shard/v1/SetModelsRequest.ts";

/** One model a worker is to hold. */
export interface OrderedModel {
  readonly model: string;
  /** Absolute. */
  readonly basePath: string;
  readonly policy:
    | { readonly kind: "latest"; readonly count: number }
    | { readonly kind: "all" }
    | { readonly kind: "specific"; readonly versions: readonly number[] };
}

/** The whole list of models, in place of the one before. */
export interface ModelsOrder {
  readonly models: readonly OrderedModel[];
  /** Only to say whether it would be done. */
  readonly checkOnly: boolean;
}

const MODELS_MAX = 512;
const NAME_CHARACTERS_MAX = 256;
const PATH_CHARACTERS_MAX = 4096;
const VERSIONS_MAX = 1024;

/** @throws WinnowError INVALID_ARGUMENT as the reader would */
export function encodeModelsOrder(order: ModelsOrder): SetModelsRequest {
  checkModelsOrder(order);
  const { models, checkOnly } = order;
  return { models: models.map(encodeModel), check_only: checkOnly };
}

/** @throws WinnowError INVALID_ARGUMENT for what is out of bounds */
export function decodeModelsOrder(message: SetModelsRequest__Output): ModelsOrder {
  const models = message.models.map(decodeModel);
  const order = { models, checkOnly: message.check_only };
  checkModelsOrder(order);
  return order;
}

function encodeModel({ model, basePath, policy }: OrderedModel): OrderedModelMessage {
  const named = { name: model, base_path: basePath };
  switch (policy.kind) {
    case "latest":
      return { ...named, latest: policy.count };
    case "all":
      return { ...named, all: true };
    case "specific":
      return { ...named, specific: { versions: [...policy.versions] } };
  }
}

function decodeModel(message: OrderedModel__Output): OrderedModel {
  return { model: message.name, basePath: message.base_path, policy: policyOf(message) };
}

function policyOf(message: OrderedModel__Output): OrderedModel["policy"] {
  const { policy, latest, specific } = message;
  if (policy === "latest") return { kind: "latest", count: latest ?? 0 };
  if (policy === "all") return { kind: "all" };
  if (policy === "specific") return { kind: "specific", versions: specific?.versions ?? [] };
  throw refused(message.name, "has no version policy");
}

/** @throws WinnowError INVALID_ARGUMENT for what is out of bounds */
export function checkModelsOrder({ models }: ModelsOrder): void {
  if (models.length > MODELS_MAX) {
    const text = `At most ${MODELS_MAX} models can be set, not ${models.length}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const names = new Set<string>();
  for (const { model, basePath, policy } of models) {
    if (model === "" || model.length > NAME_CHARACTERS_MAX) {
      throw refused(model, `needs another name: one has 1 to ${NAME_CHARACTERS_MAX} characters`);
    }
    if (names.has(model)) throw refused(model, "is listed twice");
    names.add(model);
    if (!basePath.startsWith("/") || basePath.includes("\0")) {
      throw refused(model, "needs an absolute base path");
    }
    if (basePath.length > PATH_CHARACTERS_MAX) {
      throw refused(model, `has a base path of more than ${PATH_CHARACTERS_MAX} characters`);
    }
    checkPolicy(model, policy);
  }
}

function checkPolicy(model: string, policy: OrderedModel["policy"]): void {
  if (policy.kind === "latest" && !isWhole(policy.count, 1, 2 ** 32 - 1)) {
    throw refused(model, "wants no version: the count of the latest is at least 1");
  }
  if (policy.kind !== "specific") return;
  const { versions } = policy;
  if (versions.length === 0 || versions.length > VERSIONS_MAX) {
    throw refused(model, `names ${versions.length} versions, not 1 to ${VERSIONS_MAX}`);
  }
  if (versions.some((version) => !isWhole(version, 0, Number.MAX_SAFE_INTEGER))) {
    throw refused(model, "names a version that is no whole number below 2^53");
  }
}

function isWhole(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max;
}

function refused(model: string, why: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Model "${excerpt(model)}" ${why}`);
}
