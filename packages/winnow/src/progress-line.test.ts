// Progress is one line that the last report ends; a wait of unknown length is told once it is worth a word, each second,
// on one line that goes away.

import { expect, test } from "vitest";
import { ManualClock } from "../../../test/doubles/manual-clock.ts";
import { progressLine, waitingLine } from "./progress-line.ts";

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

test("a progress line ends with the work, or where the work is left", () => {
  const written: string[] = [];
  const output = { isTTY: true, write: (text: string) => written.push(text) };
  const [whole, left] = [1, 2].map(() =>
    progressLine({ label: "movies", unit: "requests" }, output, new ManualClock()),
  );

  whole!(4, 4);
  left!(2, 4);
  left!(2, 4, "end");

  expect(written.map((text) => text.replaceAll("\r\u001b[2K", "<"))).toEqual([
    "<movies  100 %  4 of 4 requests\n",
    "<movies  50 %  2 of 4 requests",
    "<movies  50 %  2 of 4 requests\n",
  ]);
});
