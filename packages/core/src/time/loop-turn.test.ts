// Long work shares the event loop: however many tasks pause for it, a turn resumes one.

import { expect, test } from "vitest";
import { nextWorkTurn } from "./loop-turn.ts";

test("a turn of the event loop has one piece of long work; a task goes on before others, but not for ever", async () => {
  let turn = 0;
  const count = (): void => {
    turn += 1;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  const pieces: { task: number; turn: number }[] = [];
  const task = async (number: number, count: number): Promise<void> => {
    for (let piece = 0; piece < count; piece += 1) {
      await nextWorkTurn();
      pieces.push({ task: number, turn });
    }
  };

  await Promise.all([task(0, 4), task(1, 40), task(2, 2), task(3, 33)]);
  await task(4, 1);
  clearImmediate(counting);

  const runs: [task: number, pieces: number][] = [];
  for (const { task: of } of pieces) {
    const last = runs.at(-1);
    if (last?.[0] === of) last[1] += 1;
    else runs.push([of, 1]);
  }
  expect(runs).toEqual([
    [0, 4],
    [1, 32],
    [2, 2],
    [3, 32],
    [1, 8],
    [3, 1],
    [4, 1],
  ]);
  expect(new Set(pieces.map((each) => each.turn)).size).toBe(pieces.length);
});
