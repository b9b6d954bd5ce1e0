// Merges several retrieved lists into one, in which each item occurs once. The result depends only on the
// lists, on their order in the file and on the numbers in the file, so it is the same on any cluster:
//
//   weights   score = sum over the retrievals that found the item of weight × score, in float64, rounded to
//             float32 once; best first, equal scores by the first retrieval that found them, then by rank in it
//   reciprocal-ranks   the same of weight / (constant + rank), where the rank of a retrieval's first item is 1
//   quotas    the retrieval that has used the least part of its quota takes its best item not yet taken; of equals, the first
//
// An item that a retrieval did not find has the score 0 under that retrieval's name.

import type { MergeStage, Tensor } from "@winnow/core";
import { StringColumn } from "@winnow/core";
import type { CandidateList, Candidates } from "../candidates.ts";
import { joinedTensors, reordered } from "../candidates.ts";
import { turnMeter } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";

/** Cost of one item of one retrieval each time that its id is looked up, in units of `turnMeter`. */
const WORK_OF_LOOKUP = 2 ** 7;
/** Cost of comparing one retrieval with the others when an item is taken by quota. */
const WORK_OF_QUOTA = 2 ** 4;

/** Counts work; `true`: other requests should run before the next. */
type Meter = ReturnType<typeof turnMeter>;

/** The candidates of one retrieval, and the name of its score. */
export interface NamedCandidates {
  readonly name: string;
  readonly candidates: Candidates;
}

/** One item that one retrieval found for one instance. */
interface Entry {
  /** Position among the ids of all retrievals. */
  readonly position: number;
  readonly score: number;
  readonly key: unknown;
  readonly vector: Float32Array | undefined;
}

/** Merges the lists of several retrievals, which have ids of one dtype and equally many instances. */
export function* mergedCandidates(
  lists: readonly NamedCandidates[],
  merge: MergeStage,
): Steps<Candidates> {
  const ids = joinedTensors(lists.map(({ candidates }) => candidates.ids));
  const described = lists.flatMap(({ candidates }) => candidates.attributes ?? []);
  const values = lists.map(({ name }) => merge.parts.find((part) => part.name === name)!.value);
  const scores = lists.map(() => new Float32Array(ids.data.length));
  const vectors = new Map<number, Float32Array>();
  const instances = lists[0]!.candidates.lists.length;
  const isTurnOver = turnMeter();
  const merged: CandidateList[] = [];
  for (let instance = 0; instance < instances; instance += 1) {
    const entries = yield* entriesOf(lists, { ids, instance, isTurnOver });
    const first = yield* firstPositions(entries, isTurnOver);
    for (const [from, list] of entries.entries()) {
      for (const { key, score, vector } of list) {
        const position = first.get(key)!;
        scores[from]![position] = score;
        if (vector !== undefined) vectors.set(position, vector);
        if (isTurnOver(WORK_OF_LOOKUP)) yield;
      }
    }
    const taken = yield* takenFrom(entries, merge, { values, isTurnOver });
    merged.push({
      positions: taken.map(({ key }) => first.get(key)!),
      scores: taken.map(({ score }) => score),
    });
  }
  const candidates: Candidates = {
    ids,
    lists: merged,
    named: new Map(lists.map(({ name }, at) => [name, scores[at]!])),
    attributes: described.length === lists.length ? joinedTensors(described) : undefined,
    vectors,
  };
  if (merge.by === "quotas") return candidates;
  return yield* reordered(
    candidates,
    merged.flatMap((list) => list.scores),
  );
}

/** The lists of an instance, with each item once in each list, at its best place. */
function* entriesOf(
  lists: readonly NamedCandidates[],
  {
    ids,
    instance,
    isTurnOver,
  }: { readonly ids: Tensor; readonly instance: number; readonly isTurnOver: Meter },
): Steps<readonly (readonly Entry[])[]> {
  let start = 0;
  const found: (readonly Entry[])[] = [];
  for (const { candidates } of lists) {
    const { positions, scores } = candidates.lists[instance]!;
    const byKey = new Map<unknown, Entry>();
    for (const [rank, own] of positions.entries()) {
      const position = start + own;
      const key = keyOf(ids, position);
      const vector = candidates.vectors?.get(own);
      if (!byKey.has(key)) byKey.set(key, { position, score: scores[rank]!, key, vector });
      if (isTurnOver(WORK_OF_LOOKUP)) yield;
    }
    start += candidates.ids.data.length;
    found.push([...byKey.values()]);
  }
  return found;
}

/** The position of each item's id, in the first retrieval that found it. */
function* firstPositions(
  entries: readonly (readonly Entry[])[],
  isTurnOver: Meter,
): Steps<ReadonlyMap<unknown, number>> {
  const first = new Map<unknown, number>();
  for (const list of entries) {
    for (const { key, position } of list) {
      if (!first.has(key)) first.set(key, position);
      if (isTurnOver(WORK_OF_LOOKUP)) yield;
    }
  }
  return first;
}

type Taken = Pick<Entry, "key" | "score">;

/** What the lists of an instance become; `values` are the weights or quotas of the retrievals. */
function takenFrom(
  entries: readonly (readonly Entry[])[],
  merge: MergeStage,
  { values, isTurnOver }: { readonly values: readonly number[]; readonly isTurnOver: Meter },
): Steps<readonly Taken[]> {
  switch (merge.by) {
    case "quotas":
      return takenByQuota(entries, values, isTurnOver);
    case "weights":
      return summed(entries, ({ score }, from) => values[from]! * score, isTurnOver);
    case "reciprocal-ranks": {
      const { constant } = merge;
      const term = (_entry: Entry, from: number, at: number) => values[from]! / (constant + at + 1);
      return summed(entries, term, isTurnOver);
    }
  }
}

/** Every item with the sum of what its retrievals give it, in the order in which items were found. */
function* summed(
  entries: readonly (readonly Entry[])[],
  term: (entry: Entry, from: number, at: number) => number,
  isTurnOver: Meter,
): Steps<readonly Taken[]> {
  const sums = new Map<unknown, number>();
  for (const [from, list] of entries.entries()) {
    for (const [at, entry] of list.entries()) {
      const { key } = entry;
      sums.set(key, (sums.get(key) ?? 0) + term(entry, from, at));
      if (isTurnOver(WORK_OF_LOOKUP)) yield;
    }
  }
  return Array.from(sums, ([key, sum]) => ({ key, score: Math.fround(sum) }));
}

/** Items in the order in which the retrievals take them. */
function* takenByQuota(
  entries: readonly (readonly Entry[])[],
  quotas: readonly number[],
  isTurnOver: Meter,
): Steps<readonly Taken[]> {
  const taken = new Map<unknown, Taken>();
  const turns = entries.map((list, at) => ({ list, quota: quotas[at]!, took: 0, next: 0 }));
  for (;;) {
    for (const turn of turns) {
      while (turn.next < turn.list.length && taken.has(turn.list[turn.next]!.key)) {
        turn.next += 1;
        if (isTurnOver(WORK_OF_LOOKUP)) yield;
      }
    }
    const open = turns.filter(({ list, quota, took, next }) => took < quota && next < list.length);
    const [first] = open;
    if (first === undefined) return [...taken.values()];
    // a.took / a.quota < b.took / b.quota, in integers.
    const turn = open.reduce(
      (least, each) => (each.took * least.quota < least.took * each.quota ? each : least),
      first,
    );
    const entry = turn.list[turn.next]!;
    taken.set(entry.key, entry);
    turn.took += 1;
    if (isTurnOver(WORK_OF_LOOKUP + WORK_OF_QUOTA * turns.length)) yield;
  }
}

/** A value that is equal for equal ids: for strings, their bytes. */
function keyOf({ dtype, data }: Tensor, position: number): unknown {
  return dtype === "string" && data instanceof StringColumn
    ? Buffer.from(data.at(position)).toString("latin1")
    : (data as Exclude<typeof data, StringColumn>)[position];
}
