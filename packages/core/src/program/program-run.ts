// Runs the program of one signature: a dataflow machine. Steps start as soon as their inputs exist,
// so two lookups of one ranking model are under way together; a value is let go after its last use.

import { WinnowError } from "../errors.ts";
import type { Tensor } from "../tensor.ts";
import type { DenseStep, LookupStep, SignatureProgram, TopKStep } from "./program.ts";
import type { VocabularyIndex } from "./vocabulary-index.ts";

/** What a TopK step asks for: `k` is the step's own or the request's, already capped or checked. */
export interface TopKQuestion {
  /** float32 `[queries, dim]`. */
  readonly query: Tensor;
  readonly k: number;
}

/** What a TopK step gives; the parts that the step does not use may be `undefined`. */
export interface TopKAnswer {
  /** float32 `[queries, k]`. */
  readonly scores: Tensor;
  /** int32 `[queries, k]`. */
  readonly rows: Tensor | undefined;
  /** `[queries, k]` of the table's id dtype. */
  readonly ids: Tensor | undefined;
}

/** How the parts of a program that leave this file are done. The signal aborts a failed request. */
export interface ProgramExecutors {
  readonly vocabularies: readonly VocabularyIndex[];
  lookup(step: LookupStep, keys: Tensor, signal: AbortSignal): Promise<Tensor>;
  dense(
    step: DenseStep,
    inputs: ReadonlyMap<string, Tensor>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Tensor>>;
  topK(step: TopKStep, question: TopKQuestion, signal: AbortSignal): Promise<TopKAnswer>;
}

/** What one request may change. */
export interface ProgramRunOptions {
  readonly signal?: AbortSignal | undefined;
  /** Asked instead of every TopK step's own `k`. */
  readonly k?: number | undefined;
}

/** One request: the inputs by name and its wishes. */
export interface ProgramRequest extends ProgramRunOptions {
  readonly inputs: ReadonlyMap<string, Tensor>;
}

/**
 * Runs a signature. Outputs are by name, in the signature's order.
 * @throws WinnowError the first failure of any step; the others are aborted
 */
export async function runProgram(
  signature: SignatureProgram,
  request: ProgramRequest,
  executors: ProgramExecutors,
): Promise<ReadonlyMap<string, Tensor>> {
  void executors;
  throw new WinnowError("UNIMPLEMENTED", `${signature.name}${request.inputs.size}`);
}
