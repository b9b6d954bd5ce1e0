// Which questions a model is asked, by number: question 17 of a seed is the same in every run. They mix usual
// requests with unusual ones: single instances and batches, known keys from the whole vocabulary and strange
// ones, other `k`, exclusions of items that would have won, and both formats.

import type { Dtype, SignatureProgram, SignatureTensor, Tensor } from "@winnow/core";
import { VECTOR_ATTRIBUTE } from "@winnow/core";
import type { AnswerFormat } from "../oracle/answer-records.ts";
import type { Reference, ReferenceQuestion, SearchedItems } from "../oracle/reference.ts";
import type { FilterValue, PlainCondition, PlainFilter } from "../oracle/plain-filter.ts";
import { type ScalarValue, tensorOfScalars } from "../oracle/scalars.ts";
import { idOfRow, valuesOfRow } from "../oracle/whole-table.ts";
import { type KnownKeys, knownKeysOf, plausibleScalar, strangeScalar } from "./key-supply.ts";
import { type Random, draw, pick, seededRandom } from "./seeded-random.ts";

/** A question to a signature. */
export interface PlannedRequest extends ReferenceQuestion {
  readonly signature: SignatureProgram;
  readonly format: AnswerFormat;
  readonly instances: number;
}

/** What may vary. */
export interface PlanOptions {
  readonly model: string;
  readonly seed: number;
  /** Whether to use `k` and exclusions, which TensorFlow Serving ignores. */
  readonly hasOwnFields: boolean;
}

/** Most instances of a request and items of an answer, so that a question costs milliseconds. */
const INSTANCES_MAX = 32;
const K_MAX = 512;
const EXCLUDED_MAX = 24;
/** Most candidates of all instances of a request: a pipeline may rank each of them. */
const CANDIDATES_MAX = 4096;
/** Most attributes of an answer; a router gives at most 8,192. */
const ATTRIBUTES_MAX = 4096;
/** The fraction of requests that ask for attributes. */
const DESCRIBED_REQUESTS = 0.2;
/** Most warm-up requests that are sent. */
const WARM_UPS_MAX = 256;
/** Most values for an input of free length. */
const FREE_LENGTH_MAX = 5;
/** Requests with strange values, and these values' fraction in them: some models refuse a request for one. */
const STRANGE_REQUESTS = 0.25;
const STRANGE_VALUES = 0.4;

interface PlannedSignature {
  readonly signature: SignatureProgram;
  readonly keys: ReadonlyMap<string, KnownKeys | undefined>;
  /** What it searches; `undefined` if nothing is searched, or several tables are. */
  readonly search: SearchedItems | undefined;
}

/** Questions to one model. */
export class RequestPlan {
  readonly #reference: Reference;
  readonly #options: PlanOptions;
  readonly #signatures: readonly PlannedSignature[];
  readonly #warmUps: readonly PlannedRequest[];

  constructor(reference: Reference, options: PlanOptions) {
    this.#reference = reference;
    this.#options = options;
    const { signatures: called, warmUp } = reference;
    this.#warmUps = warmUp.slice(0, WARM_UPS_MAX).flatMap(({ signature: name, inputs }) => {
      const signature = called.find((each) => each.name === name);
      const instances = [...inputs.values()][0]?.shape[0] ?? 1;
      return signature === undefined ? [] : [{ signature, inputs, instances, format: "column" }];
    });
    this.#signatures = called.map((signature) => {
      const keys = signature.inputs.map(
        (input) => [input.name, knownKeysOf(reference.inputOf(signature, input))] as const,
      );
      return { signature, keys: new Map(keys), search: reference.searchedBy(signature) };
    });
  }

  /** Signatures that are asked. */
  get signatures(): number {
    return this.#signatures.length;
  }

  /** Question `number`; the first ones are the model's warm-up requests. */
  async request(number: number): Promise<PlannedRequest> {
    const { model, seed } = this.#options;
    const warmUp = this.#warmUps[number];
    if (warmUp !== undefined) return warmUp;
    const random = seededRandom(seed, model, number);
    const planned = this.#signatures[number % this.#signatures.length]!;
    const { signature, search } = planned;
    const { instances, isScalar } = sizeFor(planned, random);
    const strangeFraction = random() < STRANGE_REQUESTS ? STRANGE_VALUES : 0;
    const inputs = new Map(
      signature.inputs.map((input, at) => {
        const keys = planned.keys.get(input.name);
        const asked = { input, instances, random, keys, strangeFraction };
        return [input.name, this.#tensorFor(asked, number * INSTANCES_MAX + at)] as const;
      }),
    );
    const isColumn = isScalar || random() < 0.2;
    const headers = this.#headers(random);
    const format = isColumn ? "column" : "row";
    const asked = { signature, inputs, instances, format, headers } as const;
    if (search === undefined || !this.#options.hasOwnFields) return asked;
    const k = random() < 0.4 ? undefined : this.#someK(search, random);
    // The column format cannot hold lists that conditions have shortened.
    const isPlain = isColumn || random() < 0.6;
    const whole = isPlain
      ? { ...asked, k }
      : await this.#withConditions({ ...asked, k }, search, random);
    return { ...whole, attributes: this.#attributes(whole, search, random) };
  }

  /** The header by which an experiment chooses an arm; sometimes none. */
  #headers(random: Random): PlannedRequest["headers"] {
    const { stickyHeader } = this.#reference;
    if (stickyHeader === undefined || random() < 0.1) return undefined;
    return { [stickyHeader]: `user ${draw(random, 1e6)}` };
  }

  /** Names of some attributes to return, and perhaps the vector. */
  #attributes(
    { k, instances }: PlannedRequest,
    search: SearchedItems,
    random: Random,
  ): readonly string[] | undefined {
    const { spec } = search.table;
    if (!search.hasAttributes || random() >= DESCRIBED_REQUESTS) return undefined;
    const names = (spec.attributes ?? []).map(({ name }) => name).filter(() => random() < 0.5);
    if (random() < 0.2 && search.dim !== undefined) names.push(VECTOR_ATTRIBUTE);
    const ofItem = names.length + Math.ceil((search.dim ?? 0) / 384);
    const items = instances * Math.max(search.candidates, (k ?? search.k) + EXCLUDED_MAX);
    return names.length === 0 || items * ofItem > ATTRIBUTES_MAX ? undefined : names;
  }

  /** A question with exclusions or with a list of the only items that may be answered, and perhaps with a filter. */
  async #withConditions(
    asked: PlannedRequest,
    search: SearchedItems,
    random: Random,
  ): Promise<PlannedRequest> {
    const filter = random() < 0.5 ? this.#filter(search, random) : undefined;
    if (random() < 0.2) return { ...asked, filter, include: [this.#included(search, random)] };
    const exclude = await this.#exclusions(asked, search, random);
    return { ...asked, filter, exclude };
  }

  #tensorFor(
    asked: {
      readonly input: SignatureTensor;
      readonly instances: number;
      readonly random: Random;
      readonly keys: KnownKeys | undefined;
      readonly strangeFraction: number;
    },
    first: number,
  ): Tensor {
    const { input, instances, random, keys, strangeFraction } = asked;
    const inner = (input.shape ?? [-1])
      .slice(1)
      .map((size) => (size < 0 ? 1 + draw(random, FREE_LENGTH_MAX) : size));
    const shape = input.shape?.length === 0 ? [] : [instances, ...inner];
    const count = shape.reduce((product, size) => product * size, 1);
    const values = Array.from({ length: count }, (_, at): ScalarValue => {
      if (random() < strangeFraction) return strangeScalar(input.dtype, random);
      if (keys === undefined) return plausibleScalar(input.dtype, random);
      return keys.at(spread(first + at, keys.count));
    });
    return tensorOfScalars(input.dtype, shape, values);
  }

  #someK({ table, k: own }: SearchedItems, random: Random): number {
    const most = Math.max(1, Math.min(table.rows, K_MAX));
    return Math.min(most, pick(random, [1, 2, 3, own + 1, 2 * own, 100, most]));
  }

  /** A filter with values that items have; `undefined` if no values are known. */
  #filter({ table }: SearchedItems, random: Random): PlainFilter | undefined {
    // Timestamps can be written in many ways, and integers beyond 2⁵³ would be rounded here.
    const specs = (table.spec.attributes ?? []).filter(({ type }) => type !== "timestamp");
    if (specs.length === 0) return undefined;
    const one = (): PlainFilter => {
      const { name, type } = specs[draw(random, specs.length)]!;
      const value = (): FilterValue | undefined => {
        const values = valuesOfRow(table, draw(random, table.rows), name) ?? [];
        return values[draw(random, values.length)];
      };
      const [first, second] = [value(), value()];
      const areSafe = [first, second].every(
        (each) =>
          typeof each !== "bigint" && (typeof each !== "number" || Math.abs(each) < 2 ** 53),
      );
      if (first === undefined || second === undefined || !areSafe || random() < 0.1) {
        return { [name]: { $exists: random() < 0.7 } };
      }
      // Ranges of booleans are refused.
      const ranges: PlainCondition[] = type === "boolean" ? [] : [{ $gte: first }, { $lt: first }];
      const conditions = [{ $eq: first }, { $ne: first }, { $in: [first, second] }, ...ranges];
      return { [name]: conditions[draw(random, conditions.length)]! };
    };
    if (random() < 0.6) return one();
    return random() < 0.5 ? { $and: [one(), one()] } : { $or: [one(), one()] };
  }

  /** Some ids, as the only ones that may be answered. */
  #included({ table }: SearchedItems, random: Random): Tensor {
    const rows = Array.from({ length: draw(random, 40) }, () => draw(random, table.rows));
    const ids = rows.map((row) => idOfRow(table, row));
    return tensorOfScalars(table.spec.idDtype ?? "int32", [ids.length], ids);
  }

  /** Ids to exclude: some that would be answered, some others, some that no item has. */
  async #exclusions(
    request: PlannedRequest,
    { table }: SearchedItems,
    random: Random,
  ): Promise<readonly Tensor[]> {
    const { signature, inputs, k, instances } = request;
    const dtype = table.spec.idDtype ?? "int32";
    const search = await this.#reference.find(signature, { inputs, k }).catch(() => undefined);
    const winners = search?.rows ?? [];
    const listFor = (query: number): Tensor => {
      const rows = [...(winners[query] ?? [])].filter(() => random() < 0.5).slice(0, EXCLUDED_MAX);
      for (let more = draw(random, 4); more > 0; more -= 1) rows.push(draw(random, table.rows));
      const ids: ScalarValue[] = rows.map((row) => idOfRow(table, row));
      if (random() < 0.3) ids.push(strangeId(dtype, random));
      return tensorOfScalars(dtype, [ids.length], ids);
    };
    // A model that serves one user may take a vector: its values are no instances.
    const queries = search === undefined ? instances : winners.length;
    const isForEach = queries > 1 && random() < 0.5;
    return isForEach ? Array.from({ length: queries }, (_, query) => listFor(query)) : [listFor(0)];
  }
}

function strangeId(dtype: Dtype, random: Random): ScalarValue {
  return dtype === "string" ? `no such item ${draw(random, 1e6)}` : BigInt(draw(random, 2 ** 30));
}

/** How many instances a request has: fixed by the inputs' shapes, or drawn. */
function sizeFor(
  { signature: { inputs }, search }: PlannedSignature,
  random: Random,
): { readonly instances: number; readonly isScalar: boolean } {
  const fixed = inputs.map(({ shape }) => shape?.[0] ?? -1).find((size) => size > 0);
  const isScalar = inputs.some(({ shape }) => shape?.length === 0);
  const most = Math.max(1, Math.floor(CANDIDATES_MAX / (search?.candidates ?? 1)));
  const free = Math.min(most, batchSize(random));
  return { instances: isScalar ? 1 : (fixed ?? free), isScalar };
}

function batchSize(random: Random): number {
  if (random() < 0.6) return 1;
  return random() < 0.8 ? 2 + draw(random, 7) : 2 + draw(random, INSTANCES_MAX - 1);
}

/** Position `index` of a walk through `count` places, in which successive positions are far apart. */
function spread(index: number, count: number): number {
  let step = Math.max(1, Math.round(count * 0.618));
  while (commonDivisor(step, count) > 1) step += 1;
  return Number((BigInt(index) * BigInt(step)) % BigInt(count));
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}
