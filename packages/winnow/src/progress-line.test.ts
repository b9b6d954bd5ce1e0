// A wait of unknown length is told once it is worth a word, each second, on one line that goes away.

import { expect, test } from "vitest";
import { ManualClock } from "../../../test/doubles/manual-clock.ts";
import { waitingLine } from "./progress-line.ts";

test("a waiting line appears after two seconds, rewrites itself each second, and is cleared", () => {
  const clock = new ManualClock();
  const written: string[] = [];
  const line = waitingLine("opening", { isTTY: true, write: (text) => written.push(text) }, clock);

  line.show("movies");
  line.clear();
  expect(written).toEqual([]);
  clock.advance(2100);
  line.show("movies");
  line.show("movies");
  clock.advance(1000);
  line.show("movies, ads");
  line.clear();
  line.clear();

  expect(written.map((text) => text.replaceAll("\r\u001b[2K", "<"))).toEqual([
    "<opening  movies  2 s",
    "<opening  movies, ads  3 s",
    "<",
  ]);
});
