// Attempts on a clock that is moved: how many, how long apart, and when a stream that says nothing is given up.

import { PassThrough } from "node:stream";
import { WinnowError } from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { type Refusal, bodyOf, inAttempts, inTime, shortBody } from "./attempts.ts";

const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Fails so often before it succeeds, and notes when it was called. */
function attempted(fails: number, refusal: Refusal) {
  const clock = new ManualClock();
  const calledMs: number[] = [];
  const result = inAttempts(
    { clock, random: () => 1 },
    { what: "gs://models/movies", refusal: () => refusal },
    async () => {
      calledMs.push(clock.nowMs());
      if (calledMs.length <= fails) throw new Error("no");
      return "yes";
    },
  );
  // Whoever waits for the time to pass may come late.
  result.catch(() => undefined);
  return { clock, calledMs, result };
}

async function passed(clock: ManualClock, ms: number): Promise<void> {
  for (let at = 0; at < ms; at += 50) {
    await settled();
    clock.advance(50);
  }
  await settled();
}

test("what fails for now is tried five times, each pause twice the one before", async () => {
  const { clock, calledMs, result } = attempted(9, { status: 503, text: "503 busy" });

  await passed(clock, 5000);

  const start = calledMs[0]!;
  expect(calledMs.map((ms) => ms - start)).toEqual([0, 100, 300, 700, 1500]);
  await expect(result).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: "Cannot read gs://models/movies: 503 busy, tried 5 times",
  });
});

test("an attempt that succeeds is the last", async () => {
  const { clock, calledMs, result } = attempted(2, { status: undefined, text: "cut" });

  await passed(clock, 1000);

  await expect(result).resolves.toBe("yes");
  expect(calledMs).toHaveLength(3);
});

test.each<[string, Refusal, string]>([
  ["is known", { status: 503, text: "", known: ["NOT_FOUND", "no such bucket"] }, "no such bucket"],
  ["the next attempt would meet", { status: 418, text: "418 teapot" }, "418 teapot, tried 1 time"],
])("what %s is told at once", async (_, refusal, text) => {
  const { calledMs, result } = attempted(9, refusal);

  await expect(result).rejects.toThrow(text);
  expect(calledMs).toHaveLength(1);
});

test("an error in Winnow's words is passed on", async () => {
  const clock = new ManualClock();
  const error = new WinnowError("FAILED_PRECONDITION", "not installed");
  const parts = { what: "az://a/b", refusal: () => ({ status: undefined, text: "" }) };

  const result = inAttempts({ clock, random: () => 0 }, parts, () => Promise.reject(error));

  await expect(result).rejects.toBe(error);
});

test("a body that goes on is waited for; one that says nothing for 30 s is given up", async () => {
  const clock = new ManualClock();
  const stream = new PassThrough();
  const result = bodyOf(clock, stream, { what: "s3://b/k", length: 3 });
  result.catch(() => undefined);
  stream.write("a");
  await settled();
  clock.advance(29_000);
  stream.write("b");
  await settled();
  clock.advance(29_000);
  expect(stream.destroyed).toBe(false);

  clock.advance(1000);

  await expect(result).rejects.toThrow("no byte for 30 s");
});

test("a body of which a byte comes now and then is given up after four minutes", async () => {
  const clock = new ManualClock();
  const stream = new PassThrough();
  const result = bodyOf(clock, stream, { what: "s3://b/k", length: 99 });
  result.catch(() => undefined);

  for (let second = 0; second < 240; second += 20) {
    expect(stream.destroyed).toBe(false);
    stream.write("a");
    await settled();
    clock.advance(20_000);
  }
  clock.advance(30_000);

  await expect(result).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message:
      "Cannot read s3://b/k: of 99 bytes 12 came within 240 s: the store, or the way to it, is too slow",
  });
});

test("an answer that is no object has 30 s to end, though bytes come", async () => {
  const clock = new ManualClock();
  const stream = new PassThrough();
  const read = (async () => {
    for await (const chunk of shortBody(clock, stream, "s3://b/k")) expect(chunk.length).toBe(1);
  })();
  read.catch(() => undefined);
  for (let second = 0; second < 30; second += 10) {
    stream.write("a");
    await settled();
    clock.advance(10_000);
  }

  await expect(read).rejects.toThrow("Cannot read s3://b/k: an answer has no end within 30 s");
});

test("an answer that is aborted is not waited for, though its library goes on", async () => {
  const asked = inTime(new ManualClock(), ({ abort }) => {
    abort(new Error("too long"));
    return new Promise(() => undefined);
  });

  await expect(asked).rejects.toThrow("too long");
});

test.each([
  ["ab", "of 3 bytes that were asked for 2 came"],
  ["abcd", "more than 3 bytes came"],
])("a body of another length is none: %j", async (text, message) => {
  const stream = new PassThrough();
  stream.end(text);

  await expect(bodyOf(new ManualClock(), stream, { what: "s3://b/k", length: 3 })).rejects.toThrow(
    message,
  );
});

test("an answer that does not come is given up after 30 s", async () => {
  const clock = new ManualClock();
  const result = inTime(
    clock,
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      }),
  );
  result.catch(() => undefined);

  clock.advance(30_000);

  await expect(result).rejects.toThrow("no answer for 30 s");
});

test("an answer that trickles is given up after 30 s, saying what came of it", async () => {
  const clock = new ManualClock();
  const result = inTime(clock, ({ came }) => {
    came(3);
    came(1024);
    return new Promise(() => undefined);
  });
  result.catch(() => undefined);

  clock.advance(30_000);

  await expect(result).rejects.toThrow(
    "an answer is not complete within 30 s, of which 1024 bytes came",
  );
});
