// What can be asked, and computes the expected answers: a model, a pipeline of models, or an experiment over
// either. Each is written from the documents, and shares no code with the router that is under test.

import type { SignatureProgram, SignatureTensor, Tensor, WarmUpRequest } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import type { AnswerValue } from "./answer-json.ts";
import type { AnswerFormat, AnswerRecord } from "./answer-records.ts";
import type { PlainFilter } from "./plain-filter.ts";
import type { DescribedItems, ItemsById, WholeKeyed } from "./whole-table.ts";

/** A question to a signature. */
export interface ReferenceQuestion {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly k?: number | undefined;
  /** Ids that must not be answered: none, one list for all instances, or one for each. */
  readonly exclude?: readonly Tensor[] | undefined;
  /** The only ids that may be answered, in the same form. */
  readonly include?: readonly Tensor[] | undefined;
  /** The filter for all instances. */
  readonly filter?: PlainFilter | undefined;
  /** Names of attributes to return for each item (`return`). */
  readonly attributes?: readonly string[] | undefined;
  /** Headers of the request, names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A search that was part of an answer, or the ranking of all items in a dense part. */
export interface ReferenceSearch {
  readonly items: ItemsById;
  /** Best rows for each query. */
  readonly rows: readonly Int32Array[];
  /** The score of a row for one query. */
  readonly scoreOf: (query: number, row: number) => number;
}

/** Values of one item's attributes, in the order of the question. */
export type ItemAttributes = Readonly<Record<string, AnswerValue>>;

/** The expected answer, and how it was found. */
export interface ReferenceAnswer {
  readonly outputs: ReadonlyMap<string, Tensor>;
  readonly searches: readonly ReferenceSearch[];
  /** For each instance and each of its items; absent if none were asked for. */
  readonly attributes?: readonly (readonly ItemAttributes[])[] | undefined;
}

/** Expected headers of an answer; absent ones are not judged. */
export interface ToldBeside {
  /** `X-Winnow-Arm`. */
  readonly arm?: string | undefined;
  /** `X-Winnow-Pipeline-Versions`. */
  readonly members?: string | undefined;
}

/** The answer that clients must get. */
export interface ExpectedAnswer {
  readonly records: readonly AnswerRecord[];
  readonly beside: ToldBeside;
  /** Where the items are in the files; absent if rows say nothing about places in the answer. */
  readonly rows?: AnsweredRows | undefined;
}

/** The rows of an answer's items, for messages. */
export interface AnsweredRows {
  at(instance: number, place: number): number | undefined;
  /** The row of an id and its score for that instance; `undefined` if no item has the id. */
  of(instance: number, id: string | bigint): FoundItem | undefined;
}

/** A row of a table that is searched. */
export interface FoundItem {
  readonly row: number;
  readonly score: number;
}

/** A model and its tables of keys. */
export interface KnowingModel {
  readonly version: ModelVersion;
  keyed(table: number): WholeKeyed;
}

/** The input of a model that gets the values of an input. */
export interface InputOfModel {
  readonly model: KnowingModel;
  readonly signature: SignatureProgram;
  readonly input: SignatureTensor;
  /** The items whose ids it takes, where it takes those of items. */
  readonly items?: DescribedItems | undefined;
}

/** The items that exclusions, filters and attributes of a question are about. */
export interface SearchedItems {
  readonly table: DescribedItems;
  /** Values of an item's vector; `undefined` for items that a dense part ranks, which have none. */
  readonly dim: number | undefined;
  /** Number of items in an answer if a question has no `k`. */
  readonly k: number;
  /** Items that are compared for one instance: the cost of a question. */
  readonly candidates: number;
  /** Whether items have attributes. */
  readonly hasAttributes: boolean;
}

/** What can be asked. */
export interface Reference {
  readonly fingerprint: string;
  /** Signatures that are asked: one without inputs only fills tables. */
  readonly signatures: readonly SignatureProgram[];
  readonly warmUp: readonly WarmUpRequest[];
  /** Why the files do not determine the answers; absent if they do. */
  readonly untold?: string | undefined;
  /** The header whose value chooses the arm. */
  readonly stickyHeader?: string | undefined;
  /** The expected answer. @throws WinnowError INVALID_ARGUMENT if the question must be refused */
  expected(
    signature: SignatureProgram,
    question: ReferenceQuestion,
    format: AnswerFormat,
  ): Promise<ExpectedAnswer>;
  /** Where the values of an input are used; `undefined` if that is not known. */
  inputOf(signature: SignatureProgram, input: SignatureTensor): InputOfModel | undefined;
  /** What is searched; `undefined` if nothing is, or several tables are. */
  searchedBy(signature: SignatureProgram): SearchedItems | undefined;
  /** The result of a question in `searchedBy`. @throws WinnowError INVALID_ARGUMENT */
  find(
    signature: SignatureProgram,
    question: ReferenceQuestion,
  ): Promise<ReferenceSearch | undefined>;
  /** Frees the models. */
  release(): Promise<void>;
}
