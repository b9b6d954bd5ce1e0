// What questions are asked of, and what says their answers: a model, a pipeline over models, or an experiment over
// either. Each knows the rules of its kind from the documents, and shares no code with the router that it judges.

import type { SignatureProgram, SignatureTensor, Tensor, WarmUpRequest } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import type { AnswerValue } from "./answer-json.ts";
import type { AnswerFormat, AnswerRecord } from "./answer-records.ts";
import type { PlainFilter } from "./plain-filter.ts";
import type { WholeCandidates, WholeKeyed } from "./whole-table.ts";

/** What is asked of a signature. */
export interface ReferenceQuestion {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly k?: number | undefined;
  /** Ids never to be answered: none, one list for all instances, or one for each. */
  readonly exclude?: readonly Tensor[] | undefined;
  /** Likewise, the only ids that may be answered. */
  readonly include?: readonly Tensor[] | undefined;
  /** Which items may be answered, by their attributes; for all instances. */
  readonly filter?: PlainFilter | undefined;
  /** Names of attributes that are wanted of each item (`return`). */
  readonly attributes?: readonly string[] | undefined;
  /** Headers of the request, by their names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A search that a question led to. */
export interface ReferenceSearch {
  readonly table: number;
  readonly dim: number;
  /** `[queries, dim]`. */
  readonly vectors: Float32Array;
  /** Best rows of each query. */
  readonly rows: readonly Int32Array[];
}

/** Values of one item's attributes, in the order in which they were wanted. */
export type ItemAttributes = Readonly<Record<string, AnswerValue>>;

/** What must be answered, and how it was found. */
export interface ReferenceAnswer {
  readonly outputs: ReadonlyMap<string, Tensor>;
  readonly searches: readonly ReferenceSearch[];
  /** Of each instance, of each of its items; absent where none are wanted. */
  readonly attributes?: readonly (readonly ItemAttributes[])[] | undefined;
}

/** What headers must say beside an answer; what is absent is not judged. */
export interface ToldBeside {
  /** `X-Winnow-Arm`. */
  readonly arm?: string | undefined;
  /** `X-Winnow-Pipeline-Versions`. */
  readonly members?: string | undefined;
}

/** An answer as clients get it. */
export interface ExpectedAnswer {
  readonly records: readonly AnswerRecord[];
  readonly beside: ToldBeside;
  /** Where the items stand in the files; absent where a row says nothing about a place in the answer. */
  readonly rows?: AnsweredRows | undefined;
}

/** The rows of an answer's items, for messages. */
export interface AnsweredRows {
  at(instance: number, place: number): number | undefined;
  /** Where an id stands, and its score for that instance; `undefined` where no item has it. */
  of(instance: number, id: string | bigint): FoundItem | undefined;
}

/** One row of a table that is searched. */
export interface FoundItem {
  readonly row: number;
  readonly score: number;
}

/** A model whose tables know keys. */
export interface KnowingModel {
  readonly version: ModelVersion;
  keyed(table: number): WholeKeyed;
}

/** An input of a model, to which an input of what is asked leads. */
export interface InputOfModel {
  readonly model: KnowingModel;
  readonly signature: SignatureProgram;
  readonly input: SignatureTensor;
}

/** The items that exclusions, filters and attributes of a question are about. */
export interface SearchedItems {
  readonly table: WholeCandidates;
  /** Items that are answered where a question does not say how many. */
  readonly k: number;
  /** Items that one instance is compared by: what a question costs. */
  readonly candidates: number;
  /** Whether attributes can be wanted. */
  readonly hasAttributes: boolean;
}

/** What questions are asked of. */
export interface Reference {
  readonly fingerprint: string;
  /** Signatures that are called: one without inputs only fills tables. */
  readonly signatures: readonly SignatureProgram[];
  readonly warmUp: readonly WarmUpRequest[];
  /** Why no file says what must be answered; absent where they do. */
  readonly untold?: string | undefined;
  /** The header whose value chooses an arm. */
  readonly stickyHeader?: string | undefined;
  /** What must be answered. @throws WinnowError INVALID_ARGUMENT where it must be refused */
  expected(
    signature: SignatureProgram,
    question: ReferenceQuestion,
    format: AnswerFormat,
  ): Promise<ExpectedAnswer>;
  /** Where the values of an input end up; `undefined` where nothing tells. */
  inputOf(signature: SignatureProgram, input: SignatureTensor): InputOfModel | undefined;
  /** What is searched; `undefined` where nothing is, or several tables are. */
  searchedBy(signature: SignatureProgram): SearchedItems | undefined;
  /** What a question finds in `searchedBy`. @throws WinnowError INVALID_ARGUMENT */
  find(
    signature: SignatureProgram,
    question: ReferenceQuestion,
  ): Promise<ReferenceSearch | undefined>;
  /** Frees what it holds. */
  release(): Promise<void>;
}
