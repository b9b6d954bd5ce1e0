// A model version in this process alone, which says what its signatures must answer. Strings, integers and
// dense layers run as on a router; look-ups go through plain maps over whole tables, searches through brute
// force.

import type { DenseEngine, DenseModel, DenseOwner } from "@winnow/accelerator";
import type {
  ProgramExecutors,
  SignatureProgram,
  Tensor,
  TopKAnswer,
  TopKQuestion,
  TopKStep,
  VocabularyIndex,
} from "@winnow/core";
import {
  ROW_COLUMN,
  StringColumn,
  WinnowError,
  indexVocabularies,
  runProgram,
  tensor,
} from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import { bestRows, definedScore, scoresOf } from "./brute-force.ts";
import { type FilterValue, type PlainFilter, isAdmitted, isKept } from "./plain-filter.ts";
import {
  type WholeCandidates,
  type WholeKeyed,
  idOfRow,
  keyAt,
  readCandidates,
  readKeyed,
  rowsById,
  valuesOfRow,
} from "./whole-table.ts";

/** What is asked of a signature. */
export interface ReferenceQuestion {
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly k?: number | undefined;
  /** Ids never to be answered: none, one list for all instances, or one for each. */
  readonly exclude?: readonly Tensor[];
  /** Likewise, the only ids that may be answered. */
  readonly include?: readonly Tensor[];
  /** Which items may be answered, by their attributes; for all instances. */
  readonly filter?: PlainFilter | undefined;
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

/** What must be answered, and how it was found. */
export interface ReferenceAnswer {
  readonly outputs: ReadonlyMap<string, Tensor>;
  readonly searches: readonly ReferenceSearch[];
}

/** One row of a table that is searched, for messages. */
export interface FoundItem {
  readonly row: number;
  readonly score: number;
}

/** An opened version, ready to answer. */
export class ReferenceModel {
  readonly version: ModelVersion;
  readonly #dense: readonly DenseModel[];
  readonly #vocabularies: readonly VocabularyIndex[];
  readonly #keyed = new Map<number, WholeKeyed>();
  readonly #candidates = new Map<
    number,
    { readonly table: WholeCandidates; readonly rowsOf: (id: string | bigint) => readonly number[] }
  >();

  private constructor(version: ModelVersion, dense: readonly DenseModel[]) {
    this.version = version;
    this.#dense = dense;
    this.#vocabularies = indexVocabularies(version.program.vocabularies);
  }

  /** Loads the dense parts; tables are read when they are first asked. The caller closes the version. */
  static async load(
    version: ModelVersion,
    engine: DenseEngine,
    owner: DenseOwner,
  ): Promise<ReferenceModel> {
    const dense: DenseModel[] = [];
    for (const model of version.program.denseModels) dense.push(await engine.load(model, owner));
    return new ReferenceModel(version, dense);
  }

  /** Frees the dense parts. */
  async release(): Promise<void> {
    await Promise.all(this.#dense.map((model) => model.release()));
  }

  /** A table in which keys are looked up, whole. */
  keyed(table: number): WholeKeyed {
    const known = this.#keyed.get(table) ?? readKeyed(this.version, table);
    this.#keyed.set(table, known);
    return known;
  }

  /** A table that is searched, whole. */
  candidates(table: number): WholeCandidates {
    return this.#searched(table).table;
  }

  /** What a signature must answer. @throws WinnowError INVALID_ARGUMENT where it must refuse */
  async answer(signature: SignatureProgram, question: ReferenceQuestion): Promise<ReferenceAnswer> {
    const searches: ReferenceSearch[] = [];
    const { inputs, k } = question;
    const executors: ProgramExecutors = {
      tables: this.version.program.tables,
      vocabularies: this.#vocabularies,
      lookup: (step, keys) => Promise.resolve().then(() => this.#lookup(step.table, keys)),
      dense: (step, values, signal) => {
        const names = step.outputs.map(({ name }) => name);
        return this.#dense[step.model]!.run(values, names, signal);
      },
      topK: (step, asked) =>
        Promise.resolve().then(() => {
          const { answer, search } = this.#search(step, asked, question);
          searches.push(search);
          return answer;
        }),
    };
    const outputs = await runProgram(signature, { inputs, k }, executors);
    return { outputs, searches };
  }

  /** Where an id stands for one query of a search; `undefined` where the table has no such id. */
  itemOf(search: ReferenceSearch, query: number, id: string | bigint): FoundItem | undefined {
    const [row] = this.#searched(search.table).rowsOf(id);
    return row === undefined ? undefined : { row, score: this.scoreOf(search, query, row) };
  }

  /** The score of a row for one query of a search. */
  scoreOf({ table, vectors, dim }: ReferenceSearch, query: number, row: number): number {
    let first = 0;
    for (const { values, lengths } of this.candidates(table).pieces) {
      const end = first + lengths.length;
      const at = (row - first) * dim;
      const vector = vectors.subarray(query * dim, (query + 1) * dim);
      if (row < end) return definedScore(vector, values.subarray(at, at + dim));
      first = end;
    }
    throw new RangeError(`no row ${row}`);
  }

  #searched(number: number): {
    readonly table: WholeCandidates;
    readonly rowsOf: (id: string | bigint) => readonly number[];
  } {
    const known = this.#candidates.get(number);
    if (known !== undefined) return known;
    const table = readCandidates(this.version, number);
    const made = { table, rowsOf: rowsById(table) };
    this.#candidates.set(number, made);
    return made;
  }

  #lookup(number: number, keys: Tensor): Tensor {
    const table = this.keyed(number);
    const { spec, values } = table;
    const { dim } = spec;
    const rows = new Float32Array(keys.data.length * dim);
    for (let at = 0; at < keys.data.length; at += 1) {
      const row = table.rowOf(keyAt(keys, at));
      rows.set(values.subarray(row * dim, (row + 1) * dim), at * dim);
    }
    return tensor("float32", [...keys.shape, dim], rows);
  }

  #search(
    step: TopKStep,
    { query, k, admits, chosen }: TopKQuestion,
    question: ReferenceQuestion,
  ): { readonly answer: TopKAnswer; readonly search: ReferenceSearch } {
    if (query.dtype !== "float32") throw new RangeError("a query of another dtype");
    const { table, rowsOf } = this.#searched(step.table);
    const left = leftOutOf({ ...question, admits }, table, rowsOf);
    const found = scoresOf(query.data, table).map((scores, at) =>
      bestRows(scores, k, left(at, chosen?.[at] ?? at)),
    );
    const counts = Uint32Array.from(found, ({ rows }) => rows.length);
    const isShort = counts.some((count) => count < k);
    const width = isShort ? counts.reduce((most, count) => Math.max(most, count), 0) : k;
    const scores = new Float32Array(found.length * width);
    const rows = new Int32Array(found.length * width);
    for (const [at, best] of found.entries()) {
      scores.set(best.scores, at * width);
      rows.set(best.rows, at * width);
    }
    const shape = [found.length, width];
    const search = {
      table: step.table,
      dim: table.dim,
      vectors: query.data,
      rows: found.map((best) => best.rows),
    };
    const answer = {
      scores: tensor("float32", shape, scores),
      rows: tensor("int32", shape, rows),
      ids: idsOf(table, rows, shape),
      counts: isShort ? counts : undefined,
    };
    return { answer, search };
  }
}

/** One list for all queries, or one for each. */
function ofQuery<List>(lists: readonly List[], query: number): List | undefined {
  return lists.length > 1 ? lists[query] : lists[0];
}

/** The rows that may not be answered to a query of a search, by its place there and its place in the request. */
function leftOutOf(
  { exclude = [], include = [], filter, admits }: ReferenceQuestion & Pick<TopKQuestion, "admits">,
  table: WholeCandidates,
  rowsOf: (id: string | bigint) => readonly number[],
): (at: number, query: number) => ReadonlySet<number> {
  const without = exclude.map((ids) => rowsOfIds(ids, rowsOf));
  const only = include.map((ids) => rowsOfIds(ids, rowsOf));
  const all = Array.from(
    { length: (filter ?? admits) === undefined && only.length === 0 ? 0 : table.rows },
    (_, row) => row,
  );
  const refused =
    filter === undefined
      ? []
      : all.filter((row) => !isAdmitted(filter, (name) => valuesOfRow(table, row, name)));
  return (at, query) => {
    const listed = ofQuery(only, query);
    const others = listed === undefined ? [] : all.filter((row) => !listed.has(row));
    const mask = admits && ofQuery(admits, at);
    const masked =
      mask === undefined
        ? []
        : all.filter((row) => {
            const valuesOf = (name: string): readonly FilterValue[] | undefined =>
              name === ROW_COLUMN ? [row] : valuesOfRow(table, row, name);
            return !isKept(mask, valuesOf);
          });
    return new Set([...(ofQuery(without, query) ?? []), ...others, ...refused, ...masked]);
  };
}

/** Rows that carry one of these ids. @throws WinnowError INVALID_ARGUMENT for ids of another kind */
function rowsOfIds(
  ids: Tensor,
  rowsOf: (id: string | bigint) => readonly number[],
): ReadonlySet<number> {
  const rows = Array.from({ length: ids.data.length }, (_, at) => rowsOf(keyAt(ids, at)));
  return new Set(rows.flat());
}

/** Ids of rows, in the dtype in which the table stores them. */
function idsOf(table: WholeCandidates, rows: Int32Array, shape: readonly number[]): Tensor {
  const { idDtype } = table.spec;
  const ids = Array.from(rows, (row) => idOfRow(table, row));
  switch (idDtype) {
    case "string": {
      const bytes = ids.map((id) => Buffer.from(String(id), "latin1"));
      return tensor("string", shape, StringColumn.fromBytes(bytes));
    }
    case "int64":
      return tensor(
        "int64",
        shape,
        BigInt64Array.from(ids, (id) => BigInt(id)),
      );
    case "int32":
    case undefined:
      return tensor("int32", shape, Int32Array.from(ids, Number));
  }
}

/** Whether an error means that the model itself refuses a question, as any server must. */
export function isRefusal(error: unknown): error is WinnowError {
  return error instanceof WinnowError && error.code === "INVALID_ARGUMENT";
}
