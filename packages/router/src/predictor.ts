// The seam between the HTTP side (bytes, JSON, statuses) and the cluster side (programs, scatter,
// gather). `http/` knows only this; `Router` implements it.

import type { Filter, ModelProgram, SignatureProgram, Tensor, VersionKey } from "@winnow/core";
import type { RequestContext } from "./request-context.ts";
import type { RequestLimits } from "./limits/request-limits.ts";

/** The model a URL names. At most one of version and label. */
export interface ModelTarget {
  readonly model: string;
  readonly version?: number | undefined;
  readonly label?: string | undefined;
}

/**
 * One version, pinned for the whole of a request: every stage and retry uses this and no other. Only
 * where its last replicas are lost meanwhile, the request as a whole runs again on the content that
 * its target means by then.
 */
export interface PinnedModel {
  readonly model: string;
  readonly version: number;
  readonly program: ModelProgram;
  /** Ends the pin; must be called exactly once. */
  release(): void;
}

/** What a request says of the items it wants, in the client's words. */
export interface ItemConditions {
  /** Wanted instead of the signature's k. */
  readonly k?: number | undefined;
  /** Item ids never to be returned: one list for all instances, or one per instance. */
  readonly exclude?: readonly Tensor[] | undefined;
  /** Which items may be returned, by their attributes: one filter for all instances, or one per instance. */
  readonly filter?: readonly Filter[] | undefined;
  /** The only item ids that may be returned: one list for all instances, or one per instance. */
  readonly include?: readonly Tensor[] | undefined;
  /** Attributes wanted of each item returned. */
  readonly attributes?: readonly string[] | undefined;
}

/** What a request asks of a pinned model. */
export interface PredictRequest extends ItemConditions {
  readonly signature: SignatureProgram;
  /** By input name; dtypes as the signature declares. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly context: RequestContext;
  /** Of a pipeline: tell what each stage did. */
  readonly explain?: boolean | undefined;
  /** Accept an answer that lacks lost partitions. */
  readonly allowPartial?: boolean | undefined;
  /** A header of the request, or its metadata, by its name in lower case. */
  readonly header?: ((name: string) => string | undefined) | undefined;
}

/** Under which name answers give attributes of items; no signature's output may have it, if they are wanted. */
export const ATTRIBUTES_OUTPUT = "attributes";

/** Under which name answers tell what the stages of a pipeline did. */
export const EXPLANATION_OUTPUT = "explain";

/** A part of a pipeline that was left out of an answer, or an arm whose fallback answered, and why. */
export interface Degradation {
  readonly stage: "seen" | "rank" | "score" | "arm";
  /**
   * `late`: not there within the stage's budget. `unavailable`: it failed. `busy`: too much of the like is under
   * way. `cut`: there was more than may be used. `skipped`: it reads what a stage that was late did not give.
   */
  readonly reason: "late" | "unavailable" | "busy" | "cut" | "skipped";
}

/** Degradations of an answer as headers tell them, each once: `seen=late, seen=cut`; `undefined` for none. */
export function degradedText(degradations: readonly Degradation[] | undefined): string | undefined {
  if (degradations === undefined || degradations.length === 0) return undefined;
  return [...new Set(degradations.map(({ stage, reason }) => `${stage}=${reason}`))].join(", ");
}

/** The answer to a request. */
export interface Prediction {
  /** The version and content that answered: the pinned one, or what took its place. */
  readonly version: VersionKey;
  /** By output name, in the signature's order. */
  readonly outputs: ReadonlyMap<string, Tensor>;
  /** string `[instances, k]`, JSON objects: the attributes that the request wants of its items. */
  readonly attributes?: Tensor | undefined;
  /** string `[instances]`, JSON objects: what the stages of a pipeline did, where the request wants it. */
  readonly explanation?: Tensor | undefined;
  /**
   * Partitions answered ÷ partitions asked; of a pipeline the product over its stages. 1 unless partial
   * answers were allowed.
   */
  readonly coverage: number;
  /** Of a pipeline or an experiment: what its answer lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  /** Of a pipeline or an experiment: the versions of the models that were asked. */
  readonly members?: readonly VersionKey[] | undefined;
  /** Of an experiment: the arms that answered, as headers tell them. */
  readonly arms?: string | undefined;
}

/** TensorFlow Serving's life of a version, as the status endpoint tells it. */
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
  /** What one request may ask; readers of requests refuse by these what `predict` would refuse. */
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
