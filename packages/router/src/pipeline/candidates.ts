// The candidates of one pipeline request on their way through the stages: for each instance a list of (id,
// score), best first. Ids stay where retrieval put them; stages move positions and scores.

import { SCORE_SO_FAR, StringColumn, WinnowError, evaluateScore } from "@winnow/core";
import type { ScoreExpression, Tensor } from "@winnow/core";
import { turnMeter } from "../turns/turns.ts";
import type { Steps } from "../turns/turns.ts";

/** Cost of ordering one candidate, of merging it once, and of one part of an expression, in units of `turnMeter`. */
const WORK_OF_ORDER = 2 ** 7;
const WORK_OF_MERGE = 2 ** 6;
const WORK_OF_TERM = 2 ** 6;

/** Candidates that are sorted at once; longer lists are merged from such runs. */
const RUN_LENGTH = 2 ** 11;

/** One instance's candidates: positions among the retrieved ids, and their scores. */
export interface CandidateList {
  readonly positions: readonly number[];
  readonly scores: readonly number[];
}

/** The candidates of all instances, as positions among the ids that retrieval gave. */
export interface Candidates {
  /** All ids in order, whatever the shape of the tensor. */
  readonly ids: Tensor;
  readonly lists: readonly CandidateList[];
  /** Scores that stages have named, by name, each by position among the retrieved ids. */
  readonly named: ReadonlyMap<string, Float32Array>;
  /** Attributes of the items as JSON objects, in the order of `ids`, where the request or a stage wants any. */
  readonly attributes?: Tensor | undefined;
  /** Vectors of items by position among the retrieved ids, where a stage needs them. */
  readonly vectors?: ItemVectors | undefined;
  /** Gives the same, where they come or are read while a ranking is under way. */
  readonly vectorsLater?: (() => Promise<ItemVectors>) | undefined;
}

/** Vectors of items by position among the retrieved ids. */
export type ItemVectors = ReadonlyMap<number, Float32Array>;

/** Reads the answer of a retrieval: `[instances, k]` each, possibly ragged. @throws WinnowError */
export function candidatesOf(scores: Tensor, ids: Tensor, model: string): Candidates {
  const [instances = 0, width = 0] = ids.shape;
  const isMatrix = ids.shape.length === 2 && scores.data.length === ids.data.length;
  if (!isMatrix || scores.dtype !== "float32") {
    const text = `Model ${model} does not retrieve: it answers scores ${shapeText(scores)} and ids`;
    throw new WinnowError("FAILED_PRECONDITION", `${text} ${shapeText(ids)}, not [instances, k]`);
  }
  const lists = Array.from({ length: instances }, (_, instance): CandidateList => {
    const length = ids.rowLengths?.[instance] ?? width;
    const positions = Array.from({ length }, (__, rank) => instance * width + rank);
    return { positions, scores: positions.map((position) => scores.data[position]!) };
  });
  return { ids, lists, named: new Map() };
}

/** Positions of all candidates, instance after instance. */
export function flatPositions(candidates: Candidates): Int32Array {
  const flat = new Int32Array(countOf(candidates));
  let at = 0;
  for (const { positions } of candidates.lists) {
    flat.set(positions, at);
    at += positions.length;
  }
  return flat;
}

/** Number of candidates of all instances. */
function countOf({ lists }: Candidates): number {
  return lists.reduce((sum, { positions }) => sum + positions.length, 0);
}

/** Rows of an input of the request, `[rows]` or, of lists, `[rows, length]`. */
export function takeRows(from: Tensor, rows: ArrayLike<number>): Tensor {
  const [, length] = from.shape;
  if (length === undefined) return take(from, rows);
  const cells = new Uint32Array(rows.length * length);
  for (let at = 0; at < cells.length; at += 1) {
    cells[at] = rows[Math.floor(at / length)]! * length + (at % length);
  }
  return { ...take(from, cells), shape: [rows.length, length] };
}

/** The values of a tensor at these positions, as a tensor `[positions]`. */
export function take(from: Tensor, positions: ArrayLike<number>): Tensor {
  const shape = [positions.length];
  if (from.dtype === "string") return { dtype: "string", shape, data: from.data.take(positions) };
  const { data } = from;
  const Values = data.constructor as new (length: number) => typeof data;
  const taken = new Values(positions.length);
  for (let at = 0; at < positions.length; at += 1) taken[at] = data[positions[at]!]!;
  return { dtype: from.dtype, shape, data: taken } as Tensor;
}

/**
 * Gives each candidate a new score, in the order of `flatPositions`, and sorts each list by score,
 * descending. Equal scores keep their order, and NaN comes after every number: the order depends on the
 * candidates alone, on any cluster. Scores are float32 values.
 */
export function* reordered(candidates: Candidates, scores: ArrayLike<number>): Steps<Candidates> {
  const isTurnOver = turnMeter();
  const lists: CandidateList[] = [];
  let from = 0;
  for (const { positions } of candidates.lists) {
    lists.push(yield* orderedList(positions, { scores, from, isTurnOver }));
    from += positions.length;
  }
  return { ...candidates, lists };
}

/** New scores, and where those of a list begin. */
interface NewScores {
  readonly scores: ArrayLike<number>;
  readonly from: number;
  readonly isTurnOver: (work: number) => boolean;
}

/** One list sorted by its new scores. The order is total, so that it does not depend on how runs are cut. */
function* orderedList(
  positions: readonly number[],
  { scores, from, isTurnOver }: NewScores,
): Steps<CandidateList> {
  const compare = (a: number, b: number): number =>
    compareScores(scores[from + a]!, scores[from + b]!) || a - b;
  let runs: number[][] = [];
  for (let start = 0; start < positions.length; start += RUN_LENGTH) {
    const length = Math.min(RUN_LENGTH, positions.length - start);
    runs.push(sortedRun(scores, { from: from + start, length, start }));
    if (isTurnOver(length * WORK_OF_ORDER)) yield;
  }
  while (runs.length > 1) {
    const joined: number[][] = [];
    for (let at = 0; at < runs.length; at += 2) {
      joined.push(yield* mergedRuns(runs[at]!, runs[at + 1] ?? [], { compare, isTurnOver }));
    }
    runs = joined;
  }
  const [order = []] = runs;
  return {
    positions: order.map((at) => positions[at]!),
    scores: order.map((at) => scores[from + at]!),
  };
}

/**
 * The places of one run by score. Each place is sorted as one number, of the score's rank and the place behind it: without
 * a function that compares two, sorting takes a third of the time.
 */
function sortedRun(
  scores: ArrayLike<number>,
  {
    from,
    length,
    start,
  }: { readonly from: number; readonly length: number; readonly start: number },
): number[] {
  const values = new Float32Array(length);
  // The sum makes 0 of -0, which is equal to it.
  for (let at = 0; at < length; at += 1) values[at] = scores[from + at]! + 0;
  const bits = new Int32Array(values.buffer);
  const keys = new Float64Array(length);
  for (let at = 0; at < length; at += 1) {
    const own = bits[at]!;
    const rank = own < 0 ? own & MAGNITUDE : -own;
    keys[at] = (Number.isNaN(values[at]) ? RANK_OF_NAN : rank) * RUN_LENGTH + at;
  }
  keys.sort();
  return Array.from(keys, (key) => start + key - Math.floor(key / RUN_LENGTH) * RUN_LENGTH);
}

/** The bits of a float32 without its sign. */
const MAGNITUDE = 0x7f_ff_ff_ff;
/** Comes after the rank of -∞. */
const RANK_OF_NAN = 0x7f_80_00_01;

/** Two sorted runs as one. */
function* mergedRuns(
  first: readonly number[],
  second: readonly number[],
  {
    compare,
    isTurnOver,
  }: Pick<NewScores, "isTurnOver"> & { readonly compare: (a: number, b: number) => number },
): Steps<number[]> {
  const merged: number[] = [];
  let [left, right] = [0, 0];
  while (left < first.length && right < second.length) {
    if (compare(first[left]!, second[right]!) < 0) merged.push(first[left++]!);
    else merged.push(second[right++]!);
    if (isTurnOver(WORK_OF_MERGE)) yield;
  }
  while (left < first.length) merged.push(first[left++]!);
  while (right < second.length) merged.push(second[right++]!);
  return merged;
}

/** Adds named scores, one for each candidate, in the order of `flatPositions`. */
export function withNamed(
  candidates: Candidates,
  name: string,
  scores: ArrayLike<number>,
): Candidates {
  const values = new Float32Array(candidates.ids.data.length);
  const positions = flatPositions(candidates);
  for (let at = 0; at < positions.length; at += 1) values[positions[at]!] = scores[at]!;
  return { ...candidates, named: new Map([...candidates.named, [name, values]]) };
}

/**
 * Sorts each list by the value of an expression, which is computed in float64 and rounded to float32 once;
 * otherwise like `reordered`.
 */
export function* scored(candidates: Candidates, expression: ScoreExpression): Steps<Candidates> {
  const { lists, named } = candidates;
  const isTurnOver = turnMeter();
  const scores = new Float32Array(countOf(candidates));
  let next = 0;
  for (const list of lists) {
    for (const [at, position] of list.positions.entries()) {
      scores[next] = evaluateScore(expression, (name) =>
        name === SCORE_SO_FAR ? list.scores[at]! : named.get(name)![position]!,
      );
      next += 1;
      if (isTurnOver(expression.length * WORK_OF_TERM)) yield;
    }
  }
  return yield* reordered(candidates, scores);
}

function compareScores(a: number, b: number): number {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return b - a || 0;
}

/** Keeps some candidates of each list, given by their places in it, in this order, with their scores. */
export function chosen(candidates: Candidates, places: readonly (readonly number[])[]): Candidates {
  const lists = candidates.lists.map(({ positions, scores }, instance) => ({
    positions: places[instance]!.map((at) => positions[at]!),
    scores: places[instance]!.map((at) => scores[at]!),
  }));
  return { ...candidates, lists };
}

/** Joins the candidates of consecutive instances; without named scores. */
export function joinedInstances(parts: readonly Candidates[]): Candidates {
  const [only, other] = parts;
  if (only !== undefined && other === undefined) return only;
  const starts: number[] = [];
  let length = 0;
  for (const { ids } of parts) {
    starts.push(length);
    length += ids.data.length;
  }
  const moved = parts.flatMap(({ lists }, part) =>
    lists.map(({ positions, scores }) => ({
      positions: positions.map((position) => starts[part]! + position),
      scores,
    })),
  );
  const vectors = parts.flatMap((part, at) =>
    Array.from(part.vectors ?? [], ([position, each]) => [starts[at]! + position, each] as const),
  );
  const described = parts.flatMap(({ attributes }) => attributes ?? []);
  return {
    ids: joinedTensors(parts.map(({ ids }) => ids)),
    lists: moved,
    named: new Map(),
    attributes: described.length === 0 ? undefined : joinedTensors(described),
    ...(vectors.length > 0 && { vectors: new Map(vectors) }),
  };
}

/** The first `count` of each list. */
export function limited(candidates: Candidates, count: number): Candidates {
  const cut = candidates.lists.map(({ positions, scores }) => ({
    positions: positions.slice(0, count),
    scores: scores.slice(0, count),
  }));
  return { ...candidates, lists: cut };
}

/** Scores, ids and attributes as `[instances, longest list]`; ragged where the lists differ in length. */
export function tensorsOf(candidates: Candidates): {
  readonly scores: Tensor;
  readonly ids: Tensor;
  readonly attributes: Tensor | undefined;
} {
  const { ids, lists, attributes } = candidates;
  const lengths = Uint32Array.from(lists, ({ positions }) => positions.length);
  const width = lengths.reduce((most, length) => Math.max(most, length), 0);
  const shape = [lists.length, width];
  const isRagged = lengths.some((length) => length !== width);
  const rows = isRagged ? { rowLengths: lengths } : {};
  const scores = new Float32Array(lists.length * width);
  for (const [instance, list] of lists.entries()) scores.set(list.scores, instance * width);
  const positions = new Int32Array(lists.length * width).fill(-1);
  for (const [instance, list] of lists.entries()) positions.set(list.positions, instance * width);
  return {
    scores: { dtype: "float32", shape, data: scores, ...rows },
    ids: { ...takePadded(ids, positions), shape, ...rows },
    attributes: attributes && { ...takePadded(attributes, positions), shape, ...rows },
  };
}

/** Like `take`; position -1 gives an empty string or 0. */
function takePadded(ids: Tensor, positions: Int32Array): Tensor {
  if (ids.dtype === "string") {
    const none = new Uint8Array();
    const data = Array.from(positions, (at) => (at < 0 ? none : ids.data.at(at)));
    return { dtype: "string", shape: [data.length], data: StringColumn.fromBytes(data) };
  }
  const { data } = ids;
  const Values = data.constructor as new (length: number) => typeof data;
  const taken = new Values(positions.length);
  for (const [at, position] of positions.entries()) if (position >= 0) taken[at] = data[position]!;
  return { dtype: ids.dtype, shape: [taken.length], data: taken } as Tensor;
}

function shapeText({ dtype, shape }: Tensor): string {
  return `${dtype} [${shape.join(",")}]`;
}

/** The values of several tensors of one dtype, tensor after tensor. */
export function joinedTensors(tensors: readonly Tensor[]): Tensor {
  const length = tensors.reduce((sum, { data }) => sum + data.length, 0);
  const [first] = tensors;
  if (first!.dtype === "string") {
    const columns = tensors.flatMap(({ data }) => (data instanceof StringColumn ? [data] : []));
    return { dtype: "string", shape: [length], data: StringColumn.joined(columns) };
  }
  const values = first!.data as Float32Array;
  const data = new (values.constructor as Float32ArrayConstructor)(length);
  let at = 0;
  for (const each of tensors) {
    data.set(each.data as Float32Array, at);
    at += each.data.length;
  }
  return { dtype: first!.dtype, shape: [length], data } as Tensor;
}
