// Merged lists against a plain reading of what weights and quotas mean.

import type { MergeStage, Tensor } from "@winnow/core";
import { StringColumn, stringTensor, tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { mergedCandidates } from "./candidate-merge.ts";
import { candidatesOf, tensorsOf, withNamed } from "../candidates.ts";
import type { Candidates } from "../candidates.ts";
import type { Steps } from "../../turns/turns.ts";

interface Item {
  readonly id: string;
  readonly score: number;
}
/** Of one retrieval: a list for each instance, best first. */
type Lists = readonly (readonly Item[])[];

/** Of reciprocal ranks. */
const CONSTANT = 3;

/** Of all steps, one after the other. */
function outcomeOf<Outcome>(steps: Steps<Outcome>): Outcome {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

const idsOf = (texts: readonly string[]): Tensor => stringTensor(texts);

function candidatesFrom(lists: Lists, name: string, toIds = idsOf): Candidates {
  const width = Math.max(1, ...lists.map((list) => list.length));
  const padded = lists.flatMap((list) =>
    Array.from({ length: width }, (_, at) => list[at] ?? { id: "0", score: 77 }),
  );
  const shape = [lists.length, width];
  const rowLengths = Uint32Array.from(lists, (list) => list.length);
  const scores = Float32Array.from(padded, ({ score }) => score);
  const ids = { ...toIds(padded.map(({ id }) => id)), shape, rowLengths };
  const candidates = candidatesOf({ ...tensor("float32", shape, scores), rowLengths }, ids, "m");
  const described = { ...stringTensor(padded.map(({ id }) => `{"of":"${name} ${id}"}`)), shape };
  const own = candidates.lists.flatMap((list) => list.scores);
  return withNamed({ ...candidates, attributes: described }, name, own);
}

function mergedFrom(all: readonly Lists[], by: MergeStage["by"], values: readonly number[]) {
  const how = by === "reciprocal-ranks" ? { by, constant: CONSTANT } : { by };
  const names = all.map((_, at) => `n${at}`);
  const parts = names.map((name, at) => ({ name, value: values[at]! })).toReversed();
  const lists = all.map((list, at) => {
    return { name: names[at]!, candidates: candidatesFrom(list, names[at]!) };
  });
  return outcomeOf(mergedCandidates(lists, { kind: "merge", parts, ...how }));
}

function textsOf(values: Tensor | undefined, { ids, lists }: Candidates): string[][] {
  const data = (values ?? ids).data;
  if (!(data instanceof StringColumn)) throw new Error("no texts");
  return lists.map(({ positions }) => positions.map((at) => data.textAt(at)));
}

/** Each item once, at its best place. */
function distinct(list: readonly Item[]): readonly Item[] {
  return list.filter(({ id }, at) => list.findIndex((other) => other.id === id) === at);
}

const item = fc.record({
  id: fc.constantFrom("a", "b", "c", "d", "e", "f"),
  score: fc.integer({ min: -4, max: 4 }).map((value) => value / 4),
});
const allLists = fc
  .record({ retrievals: fc.integer({ min: 2, max: 4 }), instances: fc.integer({ min: 1, max: 3 }) })
  .chain(({ retrievals, instances }) => {
    const list = fc.array(item, { maxLength: 7 });
    const ofOne = fc.array(list, { minLength: instances, maxLength: instances });
    return fc.array(ofOne, { minLength: retrievals, maxLength: retrievals });
  });

describe("retrieved lists", () => {
  test("merged by weights have each item once, by the sum of its scores, in the order found", () => {
    const weights = fc.array(fc.constantFrom(0, 0.25, 1, 3), { minLength: 4, maxLength: 4 });
    fc.assert(
      fc.property(allLists, weights, (all, values) => {
        const merged = mergedFrom(all, "weights", values);

        for (const [instance, { scores }] of merged.lists.entries()) {
          const found = all.map((lists) => distinct(lists[instance]!));
          const order = [...new Set(found.flat().map(({ id }) => id))];
          const sumOf = (id: string): number =>
            found.reduce(
              (sum, list, at) =>
                sum + values[at]! * (list.find((each) => each.id === id)?.score ?? 0),
              0,
            );
          const expected = order.toSorted((a, b) => sumOf(b) - sumOf(a));
          expect(textsOf(merged.ids, merged)[instance]).toEqual(expected);
          expect(scores.map((score) => score + 0)).toEqual(expected.map((id) => sumOf(id) + 0));
        }
      }),
      { numRuns: 300 },
    );
  });

  test("merged by reciprocal ranks have each item once, by the sum over the lists that have it", () => {
    const weights = fc.array(fc.constantFrom(0, 0.25, 1, 3), { minLength: 4, maxLength: 4 });
    fc.assert(
      fc.property(allLists, weights, (all, values) => {
        const merged = mergedFrom(all, "reciprocal-ranks", values);

        for (const [instance, { scores }] of merged.lists.entries()) {
          const found = all.map((lists) => distinct(lists[instance]!).map(({ id }) => id));
          const order = [...new Set(found.flat())];
          const sumOf = (id: string): number => {
            const terms = found.flatMap((ids, at) =>
              ids.includes(id) ? [values[at]! / (CONSTANT + 1 + ids.indexOf(id))] : [],
            );
            return Math.fround(terms.reduce((sum, each) => sum + each, 0));
          };
          const expected = order.toSorted((a, b) => sumOf(b) - sumOf(a));
          expect(textsOf(merged.ids, merged)[instance]).toEqual(expected);
          expect(scores).toEqual(expected.map((id) => sumOf(id)));
        }
      }),
      { numRuns: 300 },
    );
  });

  test("merged by quotas take turns by the part of its quota that each has", () => {
    const quotas = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 4, maxLength: 4 });
    fc.assert(
      fc.property(allLists, quotas, (all, values) => {
        const merged = mergedFrom(all, "quotas", values);

        for (const [instance, { scores }] of merged.lists.entries()) {
          const taken: Item[] = [];
          const counts = all.map(() => 0);
          const nextOf = (at: number): Item | undefined =>
            counts[at]! >= values[at]!
              ? undefined
              : all[at]![instance]!.find(({ id }) => !taken.some((other) => other.id === id));
          for (;;) {
            const able = all.flatMap((_, at) => (nextOf(at) === undefined ? [] : [at]));
            if (able.length === 0) break;
            const [turn] = able.toSorted(
              (a, b) => counts[a]! / values[a]! - counts[b]! / values[b]!,
            );
            taken.push(nextOf(turn!)!);
            counts[turn!]! += 1;
          }
          expect(textsOf(merged.ids, merged)[instance]).toEqual(taken.map(({ id }) => id));
          expect(scores).toEqual(taken.map(({ score }) => score));
        }
      }),
      { numRuns: 300 },
    );
  });

  test("keep the score that each retrieval gave an item by its name, and 0 where it did not find it", () => {
    const all: readonly Lists[] = [
      [
        [
          { id: "a", score: 3 },
          { id: "b", score: 1 },
        ],
      ],
      [
        [
          { id: "c", score: 5 },
          { id: "b", score: 2 },
        ],
      ],
    ];

    const merged = mergedFrom(all, "weights", [1, 1]);

    const [{ positions }] = merged.lists as [Candidates["lists"][number]];
    const scoresOf = (name: string) => positions.map((at) => merged.named.get(name)![at]);
    expect(textsOf(merged.ids, merged)).toEqual([["c", "a", "b"]]);
    expect(scoresOf("n0")).toEqual([0, 3, 1]);
    expect(scoresOf("n1")).toEqual([5, 0, 2]);
  });

  test("give an item the attributes that the first retrieval which found it gave", () => {
    const all: readonly Lists[] = [
      [[{ id: "b", score: 1 }]],
      [
        [
          { id: "c", score: 5 },
          { id: "b", score: 9 },
        ],
      ],
    ];

    const merged = mergedFrom(all, "weights", [1, 1]);

    expect(textsOf(merged.attributes, merged)).toEqual([['{"of":"n0 b"}', '{"of":"n1 c"}']]);
  });

  test.each<[string, (texts: readonly string[]) => Tensor, unknown]>([
    [
      "int64 ids beyond 2⁵³",
      (texts) =>
        tensor(
          "int64",
          [texts.length],
          BigInt64Array.from(texts, (text) => BigInt(text) + 2n ** 60n),
        ),
      [2n ** 60n + 1n, 2n ** 60n + 2n],
    ],
    [
      "int32 ids",
      (texts) => tensor("int32", [texts.length], Int32Array.from(texts, Number)),
      [1, 2],
    ],
    [
      "texts that are no UTF-8",
      (texts) => {
        const bytes = texts.map((text) => Uint8Array.of(0xff, Number(text)));
        return { dtype: "string", shape: [texts.length], data: StringColumn.fromBytes(bytes) };
      },
      undefined,
    ],
  ])("fold %s by their value", (_, toIds, expected) => {
    const one = candidatesFrom(
      [
        [
          { id: "1", score: 4 },
          { id: "2", score: 3 },
        ],
      ],
      "n0",
      toIds,
    );
    const two = candidatesFrom(
      [
        [
          { id: "2", score: 0.5 },
          { id: "1", score: 0 },
        ],
      ],
      "n1",
      toIds,
    );
    const lists = [one, two].map((candidates, at) => ({ name: `n${at}`, candidates }));
    const parts = lists.map(({ name }) => ({ name, value: 1 }));

    const merged = outcomeOf(mergedCandidates(lists, { kind: "merge", by: "weights", parts }));

    const { ids, scores } = tensorsOf(merged);
    expect(ids.shape).toEqual([1, 2]);
    expect([...(scores.data as Float32Array)]).toEqual([4, 3.5]);
    const values = ids.data instanceof StringColumn ? undefined : [...ids.data];
    expect(values).toEqual(expected);
  });
});
