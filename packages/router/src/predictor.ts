// The seam between the HTTP side (bytes, JSON, statuses) and the cluster side (programs, scatter,
// gather). `http/` knows only this; `Router` implements it.

import type { Filter, ModelProgram, SignatureProgram, Tensor, VersionKey } from "@winnow/core";
import type { ItemRows } from "./item-rows.ts";
import type { RequestContext } from "./request-context.ts";
import type { RequestLimits } from "./limits/request-limits.ts";

/** The model that a URL names, with at most one of version and label. */
export interface ModelTarget {
  readonly model: string;
  readonly version?: number | undefined;
  readonly label?: string | undefined;
}

/**
 * One version, pinned for the whole of a request: every stage and retry uses this version and no other. Only
 * if its last replicas are lost meanwhile, the request as a whole runs again on the content that its target
 * means by then.
 */
export interface PinnedModel {
  readonly model: string;
  readonly version: number;
  readonly program: ModelProgram;
  /** Ends the pin; must be called exactly once. */
  release(): void;
}

/** The conditions of a request on the items that it wants, as the client gave them. */
export interface ItemConditions {
  /** Replaces the signature's k. */
  readonly k?: number | undefined;
  /** Item ids never to be returned: one list for all instances, or one per instance. */
  readonly exclude?: readonly Tensor[] | undefined;
  /** Which items may be returned, by their attributes: one filter for all instances, or one per instance. */
  readonly filter?: readonly Filter[] | undefined;
  /** The only item ids that may be returned: one list for all instances, or one per instance. */
  readonly include?: readonly Tensor[] | undefined;
  /** Names of the attributes that are wanted of each returned item. */
  readonly attributes?: readonly string[] | undefined;
  /** Whether the vector of each item returned is wanted, as it is searched. */
  readonly vectors?: boolean | undefined;
}

/** What a request asks of a pinned model. */
export interface PredictRequest extends ItemConditions {
  readonly signature: SignatureProgram;
  /** By input name; dtypes as the signature declares. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly context: RequestContext;
  /** Whether vectors among the attributes are wanted as bytes (core/attributes/item-cell), not as texts. */
  readonly vectorBytes?: true | undefined;
  /** Rows that a search brings with the items that it finds, and that a look-up of these items then has. */
  readonly itemRows?: ItemRows | undefined;
  /** Of a pipeline: whether to explain what each stage did. */
  readonly explain?: boolean | undefined;
  /** Whether an answer may lack the partitions that are lost. */
  readonly allowPartial?: boolean | undefined;
  /** A header of the request, or its metadata, by its name in lower case: a character for each of its bytes. */
  readonly header?: ((name: string) => string | undefined) | undefined;
}

/**
 * The output under which answers give attributes of items. No output of the signature may have this name if
 * they are wanted.
 */
export const ATTRIBUTES_OUTPUT = "attributes";

/** The output under which answers give the vectors of items; if they are wanted, no output of the signature may have this name. */
export const VECTORS_OUTPUT = "vectors";

/** The output under which answers explain what the stages of a pipeline did. */
export const EXPLANATION_OUTPUT = "explain";

/** A part of a pipeline that is missing from an answer, or an arm for which the fallback answered, and why. */
export interface Degradation {
  readonly stage: "seen" | "unknown" | "rank" | "score" | "arm";
  /**
   * `late`: not there within the stage's budget. `unavailable`: it failed. `type`: what
   * is stored for it has another type. `busy`: too many of its kind are
   * under way. `cut`: there was more than may be used. `skipped`: it reads scores that a late stage did not
   * give.
   */
  readonly reason: "late" | "unavailable" | "type" | "busy" | "cut" | "skipped";
}

/** Instances of users that a pipeline's model does not know, and what they were answered. */
export interface UnknownUsers {
  readonly answer: "oov" | "list" | "pipeline";
  readonly instances: number;
}

/** As headers tell them: `list=2`; `undefined` where all are known. */
export function unknownUsersText(told: readonly UnknownUsers[] | undefined): string | undefined {
  if (told === undefined || told.length === 0) return undefined;
  return told.map(({ answer, instances }) => `${answer}=${instances}`).join(", ");
}

/** Degradations of an answer as a header has them, each once: `seen=late, seen=cut`; `undefined` if there are none. */
export function degradedText(degradations: readonly Degradation[] | undefined): string | undefined {
  if (degradations === undefined || degradations.length === 0) return undefined;
  return [...new Set(degradations.map(({ stage, reason }) => `${stage}=${reason}`))].join(", ");
}

/** The answer to a request. */
export interface Prediction {
  /** The version and content that answered: the pinned one, or the one that took its place. */
  readonly version: VersionKey;
  /** By output name, in the signature's order. */
  readonly outputs: ReadonlyMap<string, Tensor>;
  /** string `[instances, k]`, JSON objects: the attributes of items, if the request wants any; with `vectorBytes`, vectors behind them. */
  readonly attributes?: Tensor | undefined;
  /** float32 `[instances, k, dim]`: the vectors of the items, where the request wants them. */
  readonly vectors?: Tensor | undefined;
  /** string `[instances]`, JSON objects: what the stages of a pipeline did, if the request wants that. */
  readonly explanation?: Tensor | undefined;
  /**
   * Partitions answered ÷ partitions asked; for a pipeline the product over its stages. Below 1 only where
   * partial answers were allowed.
   */
  readonly coverage: number;
  /** What the answer of a pipeline or an experiment lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  /** Of a pipeline that tells them: its unknown users; each kind of answer once. */
  readonly unknownUsers?: readonly UnknownUsers[] | undefined;
  /** The versions of the models that a pipeline or an experiment asked. */
  readonly members?: readonly VersionKey[] | undefined;
  /** The arms of an experiment that answered, as a header has them. */
  readonly arms?: string | undefined;
}

/** The states of a version in TensorFlow Serving's status endpoint. */
export type ServingState = "START" | "LOADING" | "AVAILABLE" | "UNLOADING" | "END";

/** One version in the status document. */
export interface VersionStatus {
  readonly version: number;
  readonly state: ServingState;
  /** Canonical gRPC code name: `OK`, `NOT_FOUND`, … */
  readonly errorCode: string;
  readonly errorMessage: string;
}

/** What the HTTP side needs from the cluster side. */
export interface Predictor {
  /** What one request may ask. Code that reads requests refuses by these limits what `predict` would refuse. */
  readonly limits: RequestLimits;
  /**
   * Resolves a target to a version that can answer.
   * @throws WinnowError NOT_FOUND `Servable not found for request: …`; INVALID_ARGUMENT for an unknown
   * label; UNAVAILABLE when the version exists but partitions are lost, naming them.
   */
  pin(target: ModelTarget): Promise<PinnedModel>;
  predict(pinned: PinnedModel, request: PredictRequest): Promise<Prediction>;
  /** Versions of a model, descending; `undefined` for a model nobody has. */
  status(model: string): readonly VersionStatus[] | undefined;
  /** Names of all models, ascending. */
  models(): readonly string[];
  /** Whether a complete routing table has been seen and this router is not draining. */
  readonly ready: boolean;
}
