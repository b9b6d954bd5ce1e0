// Others have their turn of the router's thread while a pipeline works on tens of thousands of candidates.

import type { Tensor } from "@winnow/core";
import { parseScore, stringTensor, tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { mergedCandidates } from "./retrieval/candidate-merge.ts";
import { candidatesOf, reordered, scored } from "./candidates.ts";
import type { Candidates } from "./candidates.ts";
import { inTurns, nextTurn, turnMeter } from "../turns/turns.ts";
import type { Steps } from "../turns/turns.ts";

const INSTANCES = 600;
const K = 100;
const K_LONG = 4096;
const COUNT = INSTANCES * K;
const scores = Float32Array.from({ length: COUNT }, (_, at) => (at * 7919) % 1009);

function manyCandidates(): Candidates {
  const shape = [INSTANCES, K];
  const ids: Tensor = stringTensor(
    Array.from({ length: COUNT }, (_, at) => `item ${at % 997}`),
    shape,
  );
  return candidatesOf(tensor("float32", shape, scores), ids, "movies");
}

function expression() {
  const found = parseScore("0.7 * score + log(max(score, 1))", new Set(["score"]));
  if ("fault" in found) throw new Error(found.fault);
  return found.expression;
}

const merge = { kind: "merge", by: "weights" } as const;
const parts = [
  { name: "a", value: 1 },
  { name: "b", value: 2 },
];

describe("work on many candidates", () => {
  test.each<[string, (candidates: Candidates) => Steps<Candidates>]>([
    ["ordering by a ranking", (candidates) => reordered(candidates, scores)],
    ["a score", (candidates) => scored(candidates, expression())],
    [
      "a merge",
      (candidates) => {
        const lists = parts.map(({ name }) => ({ name, candidates }));
        return mergedCandidates(lists, { ...merge, parts });
      },
    ],
  ])("%s leaves others a turn for each few thousand of them", async (_, stepsOf) => {
    let turns = 0;
    let isOver = false;
    const take = (): void => {
      turns += 1;
      if (!isOver) setImmediate(take);
    };
    setImmediate(take);

    const { lists } = await inTurns(stepsOf(manyCandidates()), new AbortController().signal);
    isOver = true;

    expect(lists).toHaveLength(INSTANCES);
    expect(turns).toBeGreaterThanOrEqual(COUNT / 4096);
  });

  test("work that leaves nobody a turn needs no promise, and other work has one", async () => {
    const { signal } = new AbortController();
    const counted = function* (turns: number): Steps<number> {
      for (let turn = 0; turn < turns; turn += 1) yield;
      return turns;
    };

    expect(inTurns(counted(0), signal)).toBe(0);
    expect(await inTurns(counted(2), signal)).toBe(2);
  });

  test.each([
    ["weights", true],
    ["quotas", false],
  ] as const)(
    "a merge by %s of long lists of one instance leaves others turns, too; in order of scores: %s",
    (by, isOrdered) => {
      const lists = ["a", "b", "c"].map((name, list) => {
        const shape = [1, K_LONG];
        const ids = stringTensor(
          Array.from(
            { length: K_LONG },
            (_, at) => `item ${(at * 31 + list * 709) % (2 * K_LONG)}`,
          ),
          shape,
        );
        const own = tensor("float32", shape, scores.slice(list, list + K_LONG));
        return { name, candidates: candidatesOf(own, ids, "movies") };
      });
      const values = lists.map(({ name }) => ({ name, value: K_LONG }));
      const steps = mergedCandidates(lists, { kind: "merge", by, parts: values });
      let turns = 0;
      let step = steps.next();
      for (; step.done !== true; step = steps.next()) turns += 1;

      const [merged] = step.value.lists;
      const ordered = merged!.scores.toSorted((a, b) => b - a);

      expect(turns).toBeGreaterThanOrEqual((3 * K_LONG) / 1024);
      expect(new Set(merged!.positions).size).toBe(merged!.positions.length);
      expect(merged!.scores.every((score, at) => score === ordered[at])).toBe(isOrdered);
    },
  );

  test("that is little is done at once", () => {
    const ids = stringTensor(["a", "b"], [1, 2]);
    const two = candidatesOf(tensor("float32", [1, 2], Float32Array.of(1, 2)), ids, "movies");

    expect(reordered(two, [1, 2]).next()).toMatchObject({
      done: true,
      value: { lists: [{ positions: [1, 0], scores: [2, 1] }] },
    });
    expect(scored(two, expression()).next().done).toBe(true);
  });

  test("ends between two steps with its request, for the request's reason", async () => {
    const abort = new AbortController();
    const reason = new Error("left");
    const running = inTurns(scored(manyCandidates(), expression()), abort.signal);
    const turn = nextTurn(abort.signal);

    abort.abort(reason);

    await expect(running).rejects.toBe(reason);
    await expect(turn).rejects.toBe(reason);
  });

  test("is counted until a pause is due, and from there anew", () => {
    const isTurnOver = turnMeter();

    const due = Array.from({ length: 8 }, () => isTurnOver(2 ** 17));

    expect(due).toEqual([false, true, false, true, false, true, false, true]);
  });
});
