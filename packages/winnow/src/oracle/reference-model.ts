// A model version in this process alone, which says what its signatures must answer. Strings, integers and
// dense layers run as on a router; look-ups go through plain maps over whole tables, searches through brute
// force.

import type { DenseEngine, DenseModel, DenseOwner } from "@winnow/accelerator";
import type {
  DenseRanking,
  DenseStep,
  ProgramExecutors,
  SignatureProgram,
  SignatureTensor,
  SoftmaxSums,
  SumsQuestion,
  Tensor,
  TopKAnswer,
  TopKQuestion,
  TopKStep,
  VocabularyIndex,
  WarmUpRequest,
} from "@winnow/core";
import {
  StringColumn,
  VECTOR_ATTRIBUTE,
  WinnowError,
  indexVocabularies,
  keyLookupsOf,
  rankedIdsOf,
  runProgram,
  scoreValues,
  tensor,
  timestampText,
  withoutWithdrawn,
} from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import type { AnswerValue } from "./answer-json.ts";
import {
  ATTRIBUTES,
  type AnswerFormat,
  recordsOfTensors,
  withAttributes,
} from "./answer-records.ts";
import { bestRows, definedScore, scoresOf } from "./brute-force.ts";
import { type LeavingOut, checkNames, leftOutOf } from "./left-out-rows.ts";
import {
  RANKED_SCORES_MAX,
  type RankedStep,
  SCORES_PER_CANDIDATE,
  itemsOfRanking,
  namesAsked,
  rankingsOf,
  withRankings,
} from "./ranked-items.ts";
import type {
  ExpectedAnswer,
  FoundItem,
  InputOfModel,
  ItemAttributes,
  Reference,
  ReferenceAnswer,
  ReferenceQuestion,
  ReferenceSearch,
  SearchedItems,
} from "./reference.ts";
import {
  type DescribedItems,
  type ItemsById,
  type WholeCandidates,
  type WholeKeyed,
  idOfRow,
  keyAt,
  readCandidates,
  readKeyed,
  rowsById,
  valuesOfRow,
} from "./whole-table.ts";

/** A question that a pipeline asks of a model: its own filters hold as well. */
export interface ModelQuestion extends ReferenceQuestion, Pick<LeavingOut, "ownFilters"> {}

/** An opened version, ready to answer. */
export class ReferenceModel implements Reference {
  readonly version: ModelVersion;
  readonly #dense: readonly DenseModel[];
  readonly #vocabularies: readonly VocabularyIndex[];
  readonly #keyed = new Map<number, WholeKeyed>();
  readonly #candidates = new Map<number, ItemsById<WholeCandidates>>();
  readonly #ranked = new Map<DenseRanking, ItemsById>();

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

  get fingerprint(): string {
    return this.version.program.fingerprint;
  }

  get signatures(): readonly SignatureProgram[] {
    return this.version.program.signatures.filter(({ inputs }) => inputs.length > 0);
  }

  get warmUp(): readonly WarmUpRequest[] {
    return this.version.warmUp ?? [];
  }

  inputOf(signature: SignatureProgram, input: SignatureTensor): InputOfModel {
    return { model: this, signature, input };
  }

  searchedBy(signature: SignatureProgram): SearchedItems | undefined {
    const { steps, outputs } = signature;
    const searches = steps.filter(({ kind }) => kind === "topK") as TopKStep[];
    const rankings = rankingsOf(signature);
    if (searches.length + rankings.length !== 1) return undefined;
    const isTaken = outputs.some(({ name }) => name === ATTRIBUTES.name);
    const [step] = searches;
    if (step === undefined) return this.#rankedBy(signature, rankings[0]!, isTaken);
    const table = this.candidates(step.table);
    const k = typeof step.k === "number" ? step.k : 10;
    const given = new Set(outputs.map(({ value }) => value));
    const areItems = [step.scores, step.rows, step.ids].some(
      (value) => value !== undefined && given.has(value),
    );
    // Functions and several vectors of a query make another order than that of one search.
    const isPlain = step.functions === undefined && step.vectors === undefined;
    const hasAttributes = areItems && isPlain && !isTaken;
    return { table, dim: table.dim, k, candidates: k, hasAttributes };
  }

  #rankedBy(
    signature: SignatureProgram,
    { step, ranking }: RankedStep,
    isTaken: boolean,
  ): SearchedItems | undefined {
    const { k, items, described } = ranking;
    // Without ids, or with more scores than a request may rank, the router refuses what a question asks of items.
    const own = this.#rankedItems(signature, step, ranking);
    if (own === undefined || items > RANKED_SCORES_MAX) return undefined;
    const candidates = Math.max(k, Math.ceil(items / SCORES_PER_CANDIDATE));
    const hasAttributes = described !== undefined && !isTaken;
    return { table: own.table, dim: undefined, k, candidates, hasAttributes };
  }

  async find(
    signature: SignatureProgram,
    question: ReferenceQuestion,
  ): Promise<ReferenceSearch | undefined> {
    const { searches } = await this.answer(signature, question);
    return searches[0];
  }

  async expected(
    signature: SignatureProgram,
    question: ReferenceQuestion,
    format: AnswerFormat,
  ): Promise<ExpectedAnswer> {
    const { outputs, searches, attributes } = await this.answer(signature, question);
    const records = withAttributes(recordsOfTensors(outputs, format), attributes);
    const [search, other] = searches;
    if (search === undefined || other !== undefined) return { records, beside: {} };
    const rows = {
      at: (instance: number, place: number) => search.rows[instance]?.[place],
      of: (instance: number, id: string | bigint) => itemOf(search, instance, id),
    };
    return { records, beside: {}, rows };
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

  /** Which values of an input have a key in a vocabulary that the signature looks it up in. */
  async knows(
    signature: SignatureProgram,
    input: string,
    values: Tensor,
  ): Promise<readonly boolean[]> {
    const { program } = this.version;
    const { part, vocabularies } = keyLookupsOf(program, signature, input);
    const executors = { tables: program.tables, vocabularies: this.#vocabularies, ...NO_WORK };
    const made = await runProgram(part, { inputs: new Map([[input, values]]) }, executors);
    const keys = [...made.values()];
    return Array.from({ length: values.data.length }, (_, at) =>
      vocabularies.some((vocabulary, number) => {
        const own = keys[number]!;
        if (vocabulary.kind === "table") return this.keyed(vocabulary.table).has(keyAt(own, at));
        return this.#vocabularies[vocabulary.vocabulary]!.positionsOf(own)[at]! >= 0;
      }),
    );
  }

  /** The items of the only search or ranking of a signature. @throws RangeError where it has none, or no ids of them */
  itemsOf(signature: SignatureProgram): ItemsById {
    const search = signature.steps.find((each) => each.kind === "topK");
    if (search !== undefined) return this.#searched(search.table);
    const [first] = rankingsOf(signature);
    const items = first && this.#rankedItems(signature, first.step, first.ranking);
    if (items === undefined) throw new RangeError("a signature that finds no items");
    return items;
  }

  /** The first rows of listed ids, in their order, that a question admits to each of its instances. */
  listedRows(
    signature: SignatureProgram,
    ids: readonly string[],
    { question, instances }: { readonly question: ModelQuestion; readonly instances: number },
  ): readonly (readonly number[])[] {
    const { table, rowsOf } = this.itemsOf(signature);
    const isText = table.spec.idDtype === "string";
    const left = leftOutOf(question, { table, rowsOf });
    return Array.from({ length: instances }, (_, at) => {
      const without = left(at, at);
      return ids.flatMap((id) => {
        const rows = rowsOf(isText ? Buffer.from(id).toString("latin1") : BigInt(id));
        return rows.filter((row) => !without.has(row)).slice(0, 1);
      });
    });
  }

  /**
   * The items of a signature's search whose products with the mean of other items' vectors are largest, for each instance;
   * with items to be unlike, with twice that mean less theirs. None where there is no item to be like.
   */
  itemsLike(
    signature: SignatureProgram,
    { like, unlike }: { readonly like: Tensor; readonly unlike: Tensor | undefined },
    question: ModelQuestion & { readonly k: number },
  ): { readonly rows: readonly (readonly number[])[]; readonly search: ReferenceSearch } {
    const step = signature.steps.find((each) => each.kind === "topK");
    if (step === undefined) throw new RangeError("a signature that searches no items");
    const { table, rowsOf } = this.#searched(step.table);
    const { dim } = table;
    const vectorsOf = (ids: Tensor | undefined, instance: number): readonly Float32Array[] => {
      const [, length = 1] = ids?.shape ?? [0, 0];
      const keys = Array.from({ length }, (_, at) => keyAt(ids!, instance * length + at));
      return keys.flatMap((key) => rowsOf(key)[0] ?? []).map((row) => itemVectorOf(table, row)!);
    };
    const instances = like.shape[0]!;
    const vectors = new Float32Array(instances * dim);
    const found = Array.from({ length: instances }, (_, instance) => {
      const own = vectorsOf(like, instance);
      const others = vectorsOf(unlike, instance);
      for (let at = 0; at < dim; at += 1) {
        const mean = meanOf(own, at);
        const isMoved = own.length > 0 && others.length > 0;
        vectors[instance * dim + at] = isMoved ? 2 * mean - meanOf(others, at) : mean;
      }
      return own.length;
    });
    const query = tensor("float32", [instances, dim], vectors);
    const all: TopKQuestion = { query, k: question.k };
    const asked = withoutWithdrawn(all, table.spec);
    const { search } = this.#search(step, asked, question);
    return { rows: search.rows.map((rows, at) => (found[at] === 0 ? [] : [...rows])), search };
  }

  /** What a signature must answer. @throws WinnowError INVALID_ARGUMENT where it must refuse */
  async answer(signature: SignatureProgram, question: ModelQuestion): Promise<ReferenceAnswer> {
    const searches: ReferenceSearch[] = [];
    const { inputs } = question;
    const k = question.k === undefined ? undefined : this.#fitted(signature, question.k);
    const executors: ProgramExecutors = {
      tables: this.version.program.tables,
      vocabularies: this.#vocabularies,
      lookup: (step, keys) => Promise.resolve().then(() => this.#lookup(step.table, keys)),
      dense: async (step, values, signal) => {
        const asked = { ...question, k };
        const names = namesAsked(step, asked);
        const outputs = await this.#dense[step.model]!.run(values, names, signal);
        const itemsOf = (ranking: DenseRanking): ItemsById | undefined =>
          this.#rankedItems(signature, step, ranking);
        const ranked = withRankings({ step, outputs, itemsOf }, asked);
        searches.push(...ranked.searches);
        return ranked.outputs;
      },
      sums: (step, asked) => Promise.resolve().then(() => this.#sums(step, asked)),
      topK: (step, asked) =>
        Promise.resolve().then(() => {
          const { answer, search } = this.#search(step, asked, question);
          searches.push(search);
          return answer;
        }),
    };
    const outputs = await runProgram(signature, { inputs, k }, executors);
    const { attributes: names = [] } = question;
    const [search] = searches;
    if (names.length === 0 || search === undefined) return { outputs, searches };
    const attributes = search.rows.map((rows) => attributesOf(search.items.table, rows, names));
    return { outputs, searches, attributes };
  }

  /** A `k` beside the instances is at most as large as what is searched; one of the model itself may be refused. */
  #fitted(signature: SignatureProgram, k: number): number {
    const { tables } = this.version.program;
    const rows = signature.steps.flatMap((step) =>
      step.kind === "topK" ? tables[step.table]!.rows : [],
    );
    return Math.min(k, ...rows, ...rankingsOf(signature).map(({ ranking }) => ranking.items));
  }

  /** What a ranking ranks; `undefined` where the signature answers no ids of it. */
  #rankedItems(
    signature: SignatureProgram,
    step: DenseStep,
    ranking: DenseRanking,
  ): ItemsById | undefined {
    const known = this.#ranked.get(ranking);
    if (known !== undefined) return known;
    const { rankedItems = [] } = this.version.program;
    const ids = rankedIdsOf(signature, step, ranking);
    if (ids === undefined) return undefined;
    const { columns } = rankedItems[ranking.described ?? -1] ?? {};
    const made = itemsOfRanking(ranking, { ids, columns, vocabularies: this.#vocabularies });
    this.#ranked.set(ranking, made);
    return made;
  }

  #searched(number: number): ItemsById<WholeCandidates> {
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

  /** The best value of each query and the plain sum of the powers of all values beside it. */
  #sums(step: TopKStep, { query, admits, functions }: SumsQuestion): SoftmaxSums {
    if (query.dtype !== "float32") throw new RangeError("a query of another dtype");
    const { table, rowsOf } = this.#searched(step.table);
    const left = leftOutOf({ admits }, { table, rowsOf });
    const valueOf = scoreValues(functions);
    const all = scoresOf(query.data, table).map((scores, at) => {
      const without = left(at, at);
      return scores.map(valueOf(at)).filter((_, row) => !without.has(row));
    });
    const best = Float32Array.from(all, (values) =>
      values.reduce((a, b) => Math.max(a, b), -Infinity),
    );
    const sum = Float64Array.from(all, (values, at) =>
      values.reduce((total, value) => {
        return value === -Infinity ? total : total + Math.exp(value - best[at]!);
      }, 0),
    );
    return { best, sum };
  }

  #search(
    step: TopKStep,
    { query, k, admits, chosen }: TopKQuestion,
    question: ModelQuestion,
  ): { readonly answer: TopKAnswer; readonly search: ReferenceSearch } {
    if (query.dtype !== "float32") throw new RangeError("a query of another dtype");
    const items = this.#searched(step.table);
    const { table } = items;
    const left = leftOutOf({ ...question, admits }, items);
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
    const { dim } = table;
    const vectors = query.data;
    const search = {
      items,
      rows: found.map((best) => best.rows),
      scoreOf: (at: number, row: number) =>
        definedScore(vectors.subarray(at * dim, (at + 1) * dim), vectorOf(table, row)),
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

/** The part of a signature that makes keys asks nobody. */
const NO_WORK = { lookup: refuse, dense: refuse, topK: refuse, sums: refuse } as const;

function refuse(): never {
  throw new RangeError("a part that makes keys has steps of arithmetic alone");
}

/** Attributes of rows. @throws WinnowError INVALID_ARGUMENT for names that there are not */
export function attributesOf(
  table: DescribedItems,
  rows: Iterable<number>,
  names: readonly string[],
): readonly ItemAttributes[] {
  checkNames(names, table);
  return Array.from(rows, (row) =>
    Object.fromEntries(names.map((name) => [name, attributeOf(table, row, name)])),
  );
}

function attributeOf(table: DescribedItems, row: number, name: string): AnswerValue {
  if (name === VECTOR_ATTRIBUTE) {
    const vector = itemVectorOf(table, row);
    // No request can be told the vector of an item that has none.
    if (vector === undefined)
      throw new WinnowError("INVALID_ARGUMENT", "The items have no vectors");
    const { buffer, byteOffset, byteLength } = vector;
    return Buffer.from(buffer, byteOffset, byteLength).toString("base64");
  }
  const values = valuesOfRow(table, row, name);
  if (values === undefined) return null;
  const { type, isList } = table.spec.attributes!.find((spec) => spec.name === name)!;
  const shown = values.map((value) =>
    type === "timestamp" ? timestampText(Number(value)) : value,
  );
  return isList ? shown : shown[0]!;
}

/** Where an id stands for one query of a search; `undefined` where there is no such id. */
function itemOf(
  { items, scoreOf }: ReferenceSearch,
  query: number,
  id: string | bigint,
): FoundItem | undefined {
  const [row] = items.rowsOf(id);
  return row === undefined ? undefined : { row, score: scoreOf(query, row) };
}

/** The values of a row. */
function vectorOf({ pieces, dim }: WholeCandidates, row: number): Float32Array {
  let first = 0;
  for (const { values, lengths } of pieces) {
    const at = (row - first) * dim;
    first += lengths.length;
    if (row < first) return values.subarray(at, at + dim);
  }
  throw new RangeError(`no row ${row}`);
}

/**
 * The same without what stands behind an item's own values: its bias, the square of its length; `undefined` for items
 * that no table holds.
 */
export function itemVectorOf(
  items: DescribedItems | WholeCandidates,
  row: number,
): Float32Array | undefined {
  if (!("pieces" in items)) return undefined;
  return vectorOf(items, row).subarray(0, items.dim - (items.spec.added ?? 0));
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

/** One value of the mean of vectors. */
const meanOf = (vectors: readonly Float32Array[], at: number): number =>
  vectors.reduce((sum, vector) => sum + vector[at]!, 0) / Math.max(1, vectors.length);
