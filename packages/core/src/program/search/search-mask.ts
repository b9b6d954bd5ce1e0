// What a mask of a graph (`where(genre == wanted, scores, -inf)`) admits in a request. The rows that keep their
// scores are found as a filter finds rows, by columns that the model itself holds: a rule with the values of a request
// is a filter for all queries, or one for each. What becomes of the other rows: masked-search.ts.

import { FILTER_LIMITS } from "../../attributes/filter.ts";
import type { Filter, FilterComparison, FilterValue } from "../../attributes/filter.ts";
import { WinnowError } from "../../errors/errors.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { invalid } from "../node-error.ts";
import type { MaskRule, MaskTest, SearchMask, ValueId } from "../program.ts";
import type { BoundMask } from "./row-classes.ts";
import { boundFunctions } from "./score-functions.ts";
import type { BoundFunction } from "./score-functions.ts";

function testsOf(rule: MaskRule): readonly MaskTest[] {
  if (rule.kind === "test") return [rule];
  return rule.kind === "not" ? testsOf(rule.of) : rule.of.flatMap(testsOf);
}

/** The values that a rule names. */
function valuesInRule(rule: MaskRule): readonly ValueId[] {
  return testsOf(rule).map(({ values }) => values);
}

/** The values that a mask uses. */
export function valuesInMask({ keeps, penalty, bonus }: SearchMask): readonly ValueId[] {
  const changes = [penalty, bonus].filter((value) => value !== undefined);
  return [...valuesInRule(keeps), ...changes];
}

/** Number of tests that a rule makes for each row. */
export function testsInRule(rule: MaskRule): number {
  return valuesInRule(rule).length;
}

/**
 * The filters for the rows that a rule keeps: one for all queries, or one for each.
 * @throws WinnowError INVALID_ARGUMENT for values that are neither for all queries nor for each
 */
function filtersOfRule(
  rule: MaskRule,
  valueOf: (value: ValueId) => Tensor,
  queries: number,
): readonly Filter[] {
  const isForEach = testsOf(rule).some(({ is, values }) => {
    return is === "at" || rowsOf(valueOf(values)) > 1;
  });
  return Array.from({ length: isForEach ? queries : 1 }, (_, query) =>
    filterOf(rule, valueOf, { query, queries }),
  );
}

/** A mask with what a request makes of it. @throws WinnowError INVALID_ARGUMENT */
export function boundMask(
  { keeps, score, penalty, bonus, isFactor, isElse, functionsBefore }: SearchMask,
  valueOf: (value: ValueId) => Tensor,
  queries: number,
): BoundMask {
  const admits = filtersOfRule(keeps, valueOf, queries);
  const others = admits.map((of): Filter => ({ kind: "not", of }));
  const op = isFactor === true ? "Mul" : "Add";
  const changeOf = (operand: ValueId | undefined): BoundFunction | undefined => {
    return operand === undefined
      ? undefined
      : boundFunctions([{ op, operand }], valueOf, queries)[0];
  };
  const changes = { penalty: changeOf(penalty), bonus: changeOf(bonus) };
  return { admits, others, score, ...changes, isElse, functionsBefore };
}

interface OfQuery {
  readonly query: number;
  readonly queries: number;
}

/** The number of lists of values: one for all queries, or one for each, along the first dimension. */
function rowsOf({ shape }: Tensor): number {
  return shape[0] ?? 1;
}

function filterOf(rule: MaskRule, valueOf: (value: ValueId) => Tensor, of: OfQuery): Filter {
  switch (rule.kind) {
    case "test":
      return testOf(rule, valueOf(rule.values), of);
    case "not":
      return { kind: "not", of: filterOf(rule.of, valueOf, of) };
    case "and":
    case "or":
      return { kind: rule.kind, of: rule.of.map((each) => filterOf(each, valueOf, of)) };
  }
}

const NOTHING: Filter = { kind: "or", of: [] };

function testOf(test: MaskTest, values: Tensor, { query, queries }: OfQuery): Filter {
  const { column, is } = test;
  if (is === "at") {
    const listed = listedValues(values, { queries, end: test.end ?? 0 })[query]!;
    return listed.length === 0
      ? NOTHING
      : { kind: "test", attribute: column, is: "in", values: listed };
  }
  const rows = rowsOf(values);
  if (rows !== 1 && rows !== queries) {
    const shapes = `[${queries}] vs. [${values.shape.join(",")}]`;
    throw invalid(`Incompatible shapes: ${shapes}: a mask needs values for each query`);
  }
  const length = values.data.length / Math.max(1, rows);
  checkLength(length);
  const first = rows === 1 ? 0 : query * length;
  const wanted = Array.from({ length }, (_, at) => maskValueAt(values, first + at));
  // No item has NaN or an infinity: nothing equals NaN, and every value is on the same side of an infinity.
  const finite = wanted.filter((value) => typeof value !== "number" || Number.isFinite(value));
  if (is === "in") {
    if (finite.length === 0) return NOTHING;
    return { kind: "test", attribute: column, is, values: finite };
  }
  const [bound] = wanted;
  if (finite.length > 0) return { kind: "test", attribute: column, is, values: finite };
  return isAboveAll(is, bound) ? { kind: "and", of: [] } : NOTHING;
}

/** The lists that were made of tensors: one is asked for each query. */
const listsOfTensors = new WeakMap<
  Tensor,
  { readonly end: number; readonly lists: readonly (readonly number[])[] }
>();

/** What pairs of a query and a value list for each query. @throws WinnowError INVALID_ARGUMENT, as a scatter refuses */
function listedValues(
  pairs: Tensor,
  { queries, end }: { readonly queries: number; readonly end: number },
): readonly (readonly number[])[] {
  const known = listsOfTensors.get(pairs);
  if (known?.end === end && known.lists.length === queries) return known.lists;
  if (pairs.shape.at(-1) !== 2 || pairs.dtype === "string") {
    throw invalid(
      `A scatter into scores needs pairs, not ${pairs.dtype} [${pairs.shape.join(",")}]`,
    );
  }
  const lists = Array.from({ length: queries }, (): number[] => []);
  for (let at = 0; at < pairs.data.length; at += 2) {
    const [query, value] = [Number(pairs.data[at]), Number(pairs.data[at + 1])];
    if (!(query >= 0 && query < queries && value >= 0 && value < end)) {
      const place = `indices[${at / 2}] = [${query}, ${value}]`;
      throw invalid(`${place} does not index into shape [${queries},${end}]`);
    }
    lists[query]!.push(value);
  }
  for (const list of lists) checkLength(list.length);
  listsOfTensors.set(pairs, { end, lists });
  return lists;
}

/** A list of a request that has more values than a mask compares with. @internal for tests */
export class LongListError extends WinnowError {
  readonly length: number;

  constructor(length: number) {
    const text = `A mask compares with ${length} values; at most ${FILTER_LIMITS.valuesMax}`;
    super("INVALID_ARGUMENT", text);
    this.length = length;
  }
}

function checkLength(length: number): void {
  if (length > FILTER_LIMITS.valuesMax) throw new LongListError(length);
}

/** The error of a list that is too long, told by the input that holds so many values, if it is the only one; or the error itself. */
export function errorOfList(error: unknown, inputs: ReadonlyMap<string, Tensor>): unknown {
  if (!(error instanceof LongListError)) return error;
  const found = Array.from(inputs).filter(([, { shape }]) => shape.at(-1) === error.length);
  const [name] = found.length === 1 ? found[0]! : [];
  return name === undefined ? error : invalid(`Input "${name}": ${error.message}`);
}

function isAboveAll(is: FilterComparison, bound: FilterValue | undefined): boolean {
  return is === "lt" || is === "lte" ? bound === Infinity : bound === -Infinity;
}

/** A value in the form of mask columns: strings as their bytes in latin1. */
export function maskValueAt({ dtype, data }: Tensor, at: number): Exclude<FilterValue, null> {
  if (dtype === "string") {
    const bytes = data.at(at);
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
  }
  if (dtype === "bool") return data[at] === 1;
  const value = data[at] as number | bigint;
  if (typeof value === "number") return value === 0 ? 0 : value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}
