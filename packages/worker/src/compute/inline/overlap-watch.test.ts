// Whether requests come one at a time; turns of the event loop end when the test says so.

import { expect, test } from "vitest";

import { OverlapWatch } from "./overlap-watch.ts";

const ALONE_MIN = 32;

function watched() {
  const turns: (() => void)[] = [];
  const watch = new OverlapWatch(() => new Promise((resolve) => turns.push(resolve)));
  const endTurn = async (): Promise<void> => {
    turns.splice(0).forEach((turn) => turn());
    await Promise.resolve();
  };
  const alone = async (requests: number): Promise<void> => {
    for (let request = 0; request < requests; request += 1) {
      watch.begin(1)();
      await endTurn();
      await endTurn();
    }
  };
  return { watch, endTurn, alone };
}

test("requests are alone once enough of them have come one at a time", async () => {
  const { watch, alone } = watched();
  const found = [watch.isAlone];

  await alone(ALONE_MIN - 1);
  found.push(watch.isAlone);
  await alone(1);
  found.push(watch.isAlone);

  expect(found).toEqual([false, false, true]);
});

test("one that is under way is not alone until what came meanwhile has been read", async () => {
  const { watch, alone, endTurn } = watched();
  await alone(ALONE_MIN);

  const end = watch.begin(1);
  const found = [watch.isAlone];
  end();
  await endTurn();
  found.push(watch.isAlone);
  await endTurn();
  found.push(watch.isAlone);

  expect(found).toEqual([false, false, true]);
});

test.each([
  ["begin together", 1],
  ["begin before another has ended", 2],
])("requests that %s put that off again", async (_, begins) => {
  const { watch, alone, endTurn } = watched();
  await alone(ALONE_MIN);

  const ends = Array.from({ length: begins }, () => watch.begin(begins === 1 ? 2 : 1));
  ends.forEach((end) => end());
  await endTurn();
  await endTurn();
  const found = [watch.isAlone];
  await alone(ALONE_MIN);
  found.push(watch.isAlone);

  expect(found).toEqual([false, true]);
});
