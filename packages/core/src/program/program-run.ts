// Runs the program of one signature as a dataflow machine. A step starts as soon as its inputs
// exist, so two lookups of one ranking model are in flight together; a value is released after its
// last use.
//
//   ready ──host──▶ done at once ─┐
//     ▲ └──lookup, dense, topK, long host steps──▶ in flight ──▶ done ─▶ steps that waited for its values
//     └───────────────────────────────────────────────────────┘
//
// A step of a branch that is not taken is done at once: what it would have defined is absent, and so
// is what steps make of that. A choice reads the values of the taken branch alone.
//
// The first failure rejects the run and aborts the steps in flight.

import { WinnowError } from "../errors/errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { requireEqualRows } from "../tensor/tensor.ts";
import { nextLoopTurn } from "../time/loop-turn.ts";
import { AbortableSignal } from "../time/signal.ts";
import type { Signal } from "../time/signal.ts";
import { runHostStep } from "./operations/host-operations.ts";
import { tensorWork } from "./operations/host-work.ts";
import { lookedUpInTurns } from "./lookup-turns.ts";
import { errorAtNode } from "./node-error.ts";
import type {
  ChoiceStep,
  DenseStep,
  HostStep,
  LookupStep,
  SearchMask,
  SignatureProgram,
  Step,
  TableSpec,
  TopKStep,
  ValueId,
} from "./program.ts";
import { mappedInputOf } from "./mapped-steps.ts";
import { planOf, valuesDefinedBy } from "./program-plan.ts";
import { manyVectorSearch } from "./search/many-vector-search.ts";
import type { Search } from "./search/many-vector-search.ts";
import { classedSearch } from "./search/masked-search.ts";
import type { Ranking } from "./search/masked-search.ts";
import { rankedSearch, settledLists } from "./search/ranked-search.ts";
import type { RankedLists } from "./search/ranked-search.ts";
import { rowClassesOf } from "./search/row-classes.ts";
import type { BoundMask } from "./search/row-classes.ts";
import { boundFunctions, scoreValues } from "./search/score-functions.ts";
import { sumsOfSearch } from "./search/softmax-search.ts";
import type { SumsQuestion } from "./search/softmax-search.ts";
import type { SoftmaxSums } from "./search/softmax-sums.ts";
import { depthOf, errorOfDepth } from "./search-depth.ts";
import { boundMask, errorOfList } from "./search/search-mask.ts";
import { withoutWithdrawn } from "./search/withdrawn-rows.ts";
import type { ProgramPlan } from "./program-plan.ts";
import {
  checkDenseOutputs,
  checkInputs,
  checkLookupOutput,
  checkTopKAnswer,
  questionOf,
} from "./step-contract.ts";
import { errorOfLengths } from "./unequal-inputs.ts";
import type { VocabularyIndex } from "./vocabulary-index.ts";
import type { TopKAnswer, TopKQuestion } from "./step-contract.ts";

/** Executes the steps that leave this file. The signal aborts when the request fails. */
export interface ProgramExecutors {
  /** `ModelProgram.tables`. */
  readonly tables: readonly TableSpec[];
  /** `indexVocabularies(ModelProgram.vocabularies)`. */
  readonly vocabularies: readonly VocabularyIndex[];
  /**
   * A host step that would hold up the event loop, done elsewhere; `undefined`: it is run at once. Steps that read large
   * constants always are.
   */
  host?(
    step: HostStep,
    inputs: readonly Tensor[],
    signal: Signal,
  ): Promise<readonly Tensor[]> | undefined;
  /** keys `[...]` → float32 `[..., dim]`, at once where the table is in this process. */
  lookup(step: LookupStep, keys: Tensor, signal: Signal): Tensor | Promise<Tensor>;
  dense(
    step: DenseStep,
    inputs: ReadonlyMap<string, Tensor>,
    signal: Signal,
  ): Promise<ReadonlyMap<string, Tensor>>;
  topK(step: TopKStep, question: TopKQuestion, signal: Signal): Promise<TopKAnswer>;
  /** The best value of each query and the sum of the powers of all values, over rows of the step's table. */
  sums(step: TopKStep, question: SumsQuestion, signal: Signal): Promise<SoftmaxSums>;
  /** Called with the attributes of the items that a search returned, in their order. */
  described?(attributes: Tensor): void;
}

/** Work of host steps in one turn of the event loop, in the unit of `tensorWork`: a few ms. */
const TURN_WORK_MAX = 2 ** 18;

/** Work of the constants of a step that may be done elsewhere, to which they would go along with each request. */
const CONSTANT_WORK_MAX = 2 ** 14;

/** One request. */
export interface ProgramRequest {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly signal?: Signal | undefined;
  /** Replaces the `k` of every TopK step. */
  readonly k?: number | undefined;
}

/**
 * Runs a signature. Outputs are by name, in the signature's order.
 * @throws WinnowError the first failure of any step (the others are aborted); INVALID_ARGUMENT for
 * inputs that are missing, unknown or of another dtype or shape; CANCELLED when the signal aborts
 */
export function runProgram(
  signature: SignatureProgram,
  request: ProgramRequest,
  executors: ProgramExecutors,
): Promise<ReadonlyMap<string, Tensor>> {
  return new ProgramRun(signature, request, executors).run();
}

class ProgramRun {
  readonly #signature: SignatureProgram;
  readonly #request: ProgramRequest;
  readonly #executors: ProgramExecutors;
  readonly #plan: ProgramPlan;
  /** Values that exist; `undefined` for those of a branch that is not taken. */
  readonly #values = new Map<ValueId, Tensor | undefined>();
  readonly #usesLeft: Map<ValueId, number>;
  /** Per step, how many of its input values do not exist yet. */
  readonly #waitingFor: Int32Array;
  readonly #ready: number[] = [];
  /** Aborts what the steps that are under way ask; absent where one waits for the other. */
  readonly #abort: AbortableSignal | undefined;
  readonly #signal: Signal;
  #isOver = false;
  /** Work of host steps since the event loop last had a turn, in the unit of `tensorWork`. */
  #work = 0;
  #isPaused = false;
  #stepsLeft: number;
  #resolve: (outputs: ReadonlyMap<string, Tensor>) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(signature: SignatureProgram, request: ProgramRequest, executors: ProgramExecutors) {
    this.#signature = signature;
    this.#request = request;
    this.#executors = executors;
    this.#plan = planOf(signature);
    this.#usesLeft = new Map(this.#plan.uses);
    this.#waitingFor = this.#plan.inputsOfSteps.slice();
    this.#stepsLeft = signature.steps.length;
    // A step that fails alone leaves nothing to abort.
    const { signal } = request;
    const mayShare = signal !== undefined && this.#plan.isChain;
    this.#abort = mayShare ? undefined : new AbortableSignal();
    this.#signal = this.#abort ?? signal!;
  }

  run(): Promise<ReadonlyMap<string, Tensor>> {
    return new Promise((resolve, reject) => {
      const { signal } = this.#request;
      if (signal?.aborted === true) throw cancellationOf(signal);
      checkInputs(this.#signature, this.#request.inputs);
      const cancel = (): void => this.#fail(cancellationOf(signal));
      this.#resolve = (outputs) => {
        signal?.removeEventListener("abort", cancel);
        resolve(outputs);
      };
      this.#reject = (error) => {
        signal?.removeEventListener("abort", cancel);
        reject(error);
      };
      signal?.addEventListener("abort", cancel, { once: true });
      this.#start();
    });
  }

  #start(): void {
    for (const [step, count] of this.#waitingFor.entries()) if (count === 0) this.#ready.push(step);
    for (const { value, tensor } of this.#signature.constants) this.#define(value, tensor);
    for (const input of this.#signature.inputs) {
      this.#define(input.value, this.#request.inputs.get(input.name));
    }
    this.#advance();
  }

  /** Runs all steps that are ready, or as many as one turn of the event loop has time for. */
  #advance(): void {
    if (this.#isPaused) return;
    try {
      while (this.#ready.length > 0 && !this.#isOver) {
        if (this.#work > TURN_WORK_MAX) return this.#pause();
        this.#begin(this.#ready.pop()!);
      }
      if (this.#stepsLeft === 0) this.#resolve(this.#outputs());
    } catch (error) {
      this.#fail(error);
    }
  }

  #pause(): void {
    this.#isPaused = true;
    this.#work = 0;
    const goOn = (): void => {
      this.#isPaused = false;
      this.#advance();
    };
    void nextLoopTurn().then(goOn);
  }

  #begin(index: number): void {
    const step = this.#signature.steps[index]!;
    if (step.kind === "choice") {
      this.#finish(index, [[step.output, this.#chosen(step)]]);
      return;
    }
    if (this.#plan.hasBranches && this.#isLeftOut(index, step)) {
      this.#finish(
        index,
        valuesDefinedBy(step).map((value) => [value, undefined]),
      );
      return;
    }
    let asked: MaybeLater<readonly StepOutput[]>;
    try {
      asked = step.kind === "host" ? this.#host(index, step) : this.#ask(step);
    } catch (error) {
      this.#fail(this.#failureOf(step, error));
      return;
    }
    if (!(asked instanceof Promise)) {
      this.#finish(index, asked);
      return;
    }
    asked.then(
      (outputs) => {
        if (!this.#isOver) {
          this.#finish(index, outputs);
          this.#advance();
        }
        return undefined;
      },
      (error: unknown) => this.#fail(this.#failureOf(step, error)),
    );
  }

  #host(index: number, step: HostStep): MaybeLater<readonly StepOutput[]> {
    const { inputs, rowLengths } = this.#inputsOf(step);
    const named = (outputs: readonly Tensor[]): readonly StepOutput[] =>
      step.outputs.map((value, at) => {
        const output = outputs[at]!;
        return [value, rowLengths === undefined ? output : { ...output, rowLengths }];
      });
    const constantWork = this.#plan.constantWorkOfSteps[index]!;
    if (constantWork <= CONSTANT_WORK_MAX) {
      const elsewhere = this.#executors.host?.(step, inputs, this.#signal);
      if (elsewhere !== undefined) return elsewhere.then(named);
    }
    const { vocabularies } = this.#executors;
    const inTurns = lookedUpInTurns(step, inputs, { vocabularies, signal: this.#signal });
    if (inTurns !== undefined) return inTurns.then(named);
    const outputs = runHostStep(step, inputs, vocabularies);
    this.#work += tensorWork(inputs) - constantWork + tensorWork(outputs);
    return named(outputs);
  }

  /** Adds the node's name to INVALID_ARGUMENT; not to overload or the loss of workers. */
  #failureOf(step: RemoteStep | HostStep, error: unknown): unknown {
    if (step.kind === "host") return error;
    if (step.kind === "dense") {
      const { k, inputs } = this.#request;
      const found = errorOfDepth(error, step, { steps: this.#signature.steps, k });
      return found === error ? errorOfLengths(error, this.#signature, inputs) : found;
    }
    const isRefusal = error instanceof WinnowError && error.code === "INVALID_ARGUMENT";
    return isRefusal ? errorAtNode(error, step.node) : error;
  }

  /** Whether a step belongs to a branch that is not taken, or reads what such a branch would define. */
  #isLeftOut(index: number, { when }: Step): boolean {
    const isAbsent = (value: ValueId): boolean => this.#values.get(value) === undefined;
    if (this.#plan.valuesOfSteps[index]!.some(isAbsent)) return true;
    return when !== undefined && isTruth(this.#values.get(when.predicate)!) !== when.isTrue;
  }

  #chosen({ predicate, branches }: ChoiceStep): Tensor | undefined {
    const decision = this.#values.get(predicate);
    return decision && this.#values.get(isTruth(decision) ? branches[0] : branches[1]);
  }

  /** Runs a step that leaves this file; its inputs are read before the first `await`. */
  #ask(step: RemoteStep): MaybeLater<readonly StepOutput[]> {
    switch (step.kind) {
      case "lookup":
        return this.#lookup(step);
      case "dense":
        return this.#dense(step);
      case "topK":
        return this.#topK(step);
    }
  }

  #lookup(step: LookupStep): MaybeLater<readonly StepOutput[]> {
    const keys = this.#input(step.keys, step.node);
    const found = (rows: Tensor): readonly StepOutput[] => {
      checkLookupOutput(this.#table(step.table), keys, rows);
      return [[step.output, rows]];
    };
    const rows = this.#executors.lookup(step, keys, this.#signal);
    return rows instanceof Promise ? rows.then(found) : found(rows);
  }

  async #dense(step: DenseStep): Promise<readonly StepOutput[]> {
    const { model } = step;
    const inputs = new Map(
      step.inputs.map(({ name, value }) => [name, this.#input(value, `dense model ${model}`)]),
    );
    const outputs = await this.#executors.dense(step, inputs, this.#signal);
    return checkDenseOutputs(step, outputs);
  }

  #topK(step: TopKStep): Promise<readonly StepOutput[]> {
    const query = this.#input(step.query, step.node);
    const own = typeof step.k === "number" ? step.k : depthOf(this.#input(step.k.value, step.node));
    const k = this.#request.k ?? own;
    const question = questionOf(step, this.#table(step.table), { query, k });
    // Most searches end as the workers' answers: each promise in between outlives the wait for them.
    const isPlain = step.functions === undefined && step.masks === undefined;
    const searching = isPlain ? this.#asked(step, question) : this.#searched(step, question);
    return searching.then((answer) => {
      if (answer.attributes !== undefined) this.#executors.described?.(answer.attributes);
      return checkTopKAnswer(step, question, answer);
    });
  }

  /** The answer to a search. Rows that its masks leave out follow where the list has room, or their score wins. */
  async #searched(step: TopKStep, question: TopKQuestion): Promise<TopKAnswer> {
    const queries = question.query.shape[0]!;
    const valueOf = (value: ValueId): Tensor => this.#input(value, step.node);
    const functions = boundFunctions(step.functions ?? [], valueOf, queries);
    const masks = (step.masks ?? []).map((mask) => this.#boundMask(mask, valueOf, queries));
    const sums = await sumsOfSearch({ query: question.query, functions, masks }, (asked) =>
      this.#executors.sums(step, this.#offered(step, asked), this.#signal),
    );
    return await classedSearch(
      question,
      { classes: rowClassesOf(functions, masks), sums },
      {
        ranked: (asked, ranking) => this.#ranked(step, asked, ranking),
        plain: (asked) => this.#found(step, asked),
        dim: this.#table(step.table).dim,
      },
    );
  }

  #boundMask(mask: SearchMask, valueOf: (value: ValueId) => Tensor, queries: number): BoundMask {
    try {
      return boundMask(mask, valueOf, queries);
    } catch (error) {
      throw errorOfList(error, this.#request.inputs);
    }
  }

  /** The answer to a search, ranked by what functions make of its scores. */
  async #ranked(
    step: TopKStep,
    question: TopKQuestion,
    { functions, sums }: Ranking,
  ): Promise<RankedLists> {
    const ask: Search = (asked) => this.#asked(step, asked);
    if (functions.length === 0) return settledLists(await ask(question));
    const valueOf = scoreValues(functions, sums);
    return await rankedSearch(question, { ask, valueOf, rows: this.#table(step.table).rows });
  }

  /** The answer to a search by its scores, over all vectors of each query. */
  #asked(step: TopKStep, question: TopKQuestion): Promise<TopKAnswer> {
    const { vectors } = step;
    if (vectors === undefined) return this.#found(step, question);
    return manyVectorSearch(question, vectors, (asked) => this.#found(step, asked));
  }

  #found(step: TopKStep, question: TopKQuestion): Promise<TopKAnswer> {
    return this.#executors.topK(step, this.#offered(step, question), this.#signal);
  }

  /** A question about the rows of a table that are still offered. */
  #offered<Question extends Pick<TopKQuestion, "admits">>(
    { table }: TopKStep,
    question: Question,
  ): Question {
    const spec = this.#table(table);
    return spec.kind === "candidate" ? withoutWithdrawn(question, spec) : question;
  }

  #finish(index: number, outputs: readonly StepOutput[]): void {
    this.#stepsLeft -= 1;
    for (const value of this.#plan.valuesOfSteps[index]!) this.#release(value);
    for (const [value, tensor] of outputs) this.#define(value, tensor);
  }

  #define(value: ValueId, tensor: Tensor | undefined): void {
    if (!this.#usesLeft.has(value)) return;
    this.#values.set(value, tensor);
    for (const step of this.#plan.readersOf.get(value) ?? []) {
      this.#waitingFor[step]! -= 1;
      if (this.#waitingFor[step] === 0) this.#ready.push(step);
    }
  }

  #release(value: ValueId): void {
    const left = this.#usesLeft.get(value)! - 1;
    this.#usesLeft.set(value, left);
    if (left === 0) this.#values.delete(value);
  }

  /** What a host step reads. Of a ragged value, the padding is read as well where each value is mapped by itself. */
  #inputsOf(step: HostStep): Pick<Tensor, "rowLengths"> & { readonly inputs: readonly Tensor[] } {
    const inputs = step.inputs.map((value) => this.#value(value));
    const ragged = inputs.findIndex(({ rowLengths }) => rowLengths !== undefined);
    if (ragged < 0) return { inputs };
    if (mappedInputOf(step, inputs) !== ragged) {
      return { inputs: step.inputs.map((value) => this.#input(value, step.node)) };
    }
    const { rowLengths, ...whole } = inputs[ragged]!;
    return { inputs: inputs.with(ragged, whole), rowLengths };
  }

  /** A value that a step reads. A ragged one is refused: it can only be an output. */
  #input(value: ValueId, node: string): Tensor {
    const tensor = this.#value(value);
    requireEqualRows(tensor, `${node} needs as many for each: send such instances one by one`);
    return tensor;
  }

  #value(value: ValueId): Tensor {
    const tensor = this.#values.get(value);
    if (tensor === undefined) throw new RangeError(`value ${value} is read before it is defined`);
    return tensor;
  }

  #table(table: number): TableSpec {
    const spec = this.#executors.tables[table];
    if (spec === undefined) throw new RangeError(`no table ${table}`);
    return spec;
  }

  #outputs(): ReadonlyMap<string, Tensor> {
    return new Map(this.#signature.outputs.map(({ name, value }) => [name, this.#value(value)]));
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#abort?.abort(error);
    this.#reject(error);
  }
}

/** A step that leaves this file. */
type RemoteStep = Exclude<Step, HostStep | ChoiceStep>;
type StepOutput = readonly [ValueId, Tensor | undefined];
type MaybeLater<Value> = Value | Promise<Value>;

/** What a predicate says, as in TensorFlow: a scalar by its value, other tensors by having any. */
function isTruth({ dtype, shape, data }: Tensor): boolean {
  if (shape.length > 0) return data.length > 0;
  return dtype === "string" ? data.at(0).length > 0 : Number(data[0]) !== 0;
}

function cancellationOf(signal: Signal | undefined): WinnowError {
  const reason: unknown = signal?.reason;
  if (reason instanceof WinnowError) return reason;
  return new WinnowError("CANCELLED", "The request was cancelled", { cause: reason });
}
