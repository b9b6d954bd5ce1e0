// What a crowd that asks for one costly value gets, and when.

import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { nextLoopTurn } from "./loop-turn.ts";
import { sharedMaking } from "./shared-making.ts";

test("those who ask before a value is begun share it, and the next is made when nine times as long has gone by", async () => {
  const clock = new ManualClock();
  let made = 0;
  const ask = sharedMaking(async () => {
    clock.advance(10);
    made += 1;
    return made;
  }, clock);

  expect(await Promise.all([ask(), ask(), ask()])).toEqual([1, 1, 1]);

  const crowd = Promise.all([ask(), ask()]);
  clock.advance(89);
  await nextLoopTurn();
  expect(made).toBe(1);
  const late = ask();
  clock.advance(1);
  expect([await crowd, await late]).toEqual([[2, 2], 2]);
});

test("a value that cannot be made is refused to those who asked, and made for others", async () => {
  let made = 0;
  const ask = sharedMaking(async () => {
    made += 1;
    if (made === 1) throw new RangeError("not now");
    return made;
  }, new ManualClock());

  await expect(Promise.all([ask(), ask()])).rejects.toThrow("not now");
  expect(await ask()).toBe(2);
});

test("nobody waits for longer than a second for one that took long to make", async () => {
  const clock = new ManualClock();
  const ask = sharedMaking(async () => {
    clock.advance(5000);
    return clock.nowMs();
  }, clock);
  await ask();

  const next = ask();
  clock.advance(1000);
  expect(await next).toBe(clock.nowMs());
});
