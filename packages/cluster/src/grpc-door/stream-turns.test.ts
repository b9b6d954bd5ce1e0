// Streams of several connections that come in one turn of the event loop: which begin at once, which wait, which give way.

import { nextLoopTurn } from "@winnow/core";
import { expect, test } from "vitest";
import { StreamLine, StreamTurns } from "./stream-turns.ts";

interface Stream {
  readonly name: string;
  isOver: boolean;
}

/** Turns, and a line for each connection. */
class Turns {
  readonly all: StreamTurns<Stream>;
  readonly #lines = new Map<string, StreamLine<Stream>>();

  constructor(begin: (stream: Stream) => void) {
    this.all = new StreamTurns(begin);
  }

  lineOf(connection: string): StreamLine<Stream> {
    const line = this.#lines.get(connection) ?? new StreamLine();
    this.#lines.set(connection, line);
    return line;
  }

  giveWay(connection: string): Stream | undefined {
    return this.all.giveWay(this.lineOf(connection));
  }
}

function start(): { turns: Turns; begun: string[] } {
  const begun: string[] = [];
  return { turns: new Turns(({ name }) => void begun.push(name)), begun };
}

/** Streams of a connection, all opened in this turn. */
function open(turns: Turns, connection: string, count: number): Stream[] {
  const streams = Array.from({ length: count }, (_, at) => ({
    name: `${connection}${at}`,
    isOver: false,
  }));
  for (const stream of streams) turns.all.take(turns.lineOf(connection), stream);
  return streams;
}

const ofConnection = (names: readonly string[], connection: string): string[] =>
  names.filter((name) => name.startsWith(connection));

test("a few streams begin at once, and none of them waits", () => {
  const { turns, begun } = start();

  open(turns, "a", 16);

  expect(begun).toHaveLength(16);
});

test("of more in one turn a few begin in each, in their order", async () => {
  const { turns, begun } = start();
  const streams = open(turns, "a", 40);
  const counts = [begun.length];
  for (let turn = 0; turn < 3; turn += 1) {
    await nextLoopTurn();
    counts.push(begun.length);
  }

  expect(counts).toEqual([16, 32, 40, 40]);
  expect(begun).toEqual(streams.map(({ name }) => name));
});

test("the first stream of another connection does not wait, and its further ones have their turns", async () => {
  const { turns, begun } = start();
  open(turns, "a", 1000);
  open(turns, "b", 3);

  expect(ofConnection(begun, "b")).toEqual(["b0"]);
  await nextLoopTurn();

  expect(ofConnection(begun, "b")).toEqual(["b0", "b1", "b2"]);
});

test("streams that are over by their turn take no part of it", async () => {
  const { turns, begun } = start();
  const streams = open(turns, "a", 1000);
  for (const stream of streams.slice(16, 990)) stream.isOver = true;

  await nextLoopTurn();

  expect(begun.slice(16)).toEqual(streams.slice(990).map(({ name }) => name));
});

test("the last stream of the longest line gives way, but not to a line as long", () => {
  const { turns } = start();
  open(turns, "a", 16 + 10);
  open(turns, "b", 1 + 4);

  const forOther = turns.giveWay("c");
  const forB = turns.giveWay("b");
  const forA = turns.giveWay("a");

  expect([forOther?.name, forB?.name, forA]).toEqual(["a25", "a24", undefined]);
});

test("a line that has no more than one gives no way", () => {
  const { turns } = start();
  open(turns, "a", 16 + 1);

  expect(turns.giveWay("b")).toBeUndefined();
});
