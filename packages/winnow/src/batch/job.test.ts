// A job over a router that fails at random: every line of the input has exactly one line of the output, in its order,
// however often batches are refused, requests fail and the job is interrupted and goes on.

import { WinnowError } from "@winnow/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { Answering, type AnsweringParts, waitMsOf } from "./answering.ts";
import { type InputLine, linesOf } from "./input-lines.ts";
import { batchesOf } from "./instance-batches.ts";
import { runOrdered } from "./ordered-job.ts";
import { LineCount } from "./part-file.ts";
import type { Reply } from "./reply.ts";

const LINE_BYTES_MAX = 20;
const PASSING: Reply = { kind: "passing", message: "busy", waitMs: undefined, mayHalve: true };

const refusal = (message: string): Reply => ({
  kind: "refused",
  code: "INVALID_ARGUMENT",
  message,
});

/** Predicts `p` and the instance; refuses odd numbers beyond 50. */
function answerOf(instances: readonly string[]): Reply {
  const isWrong = (text: string): boolean => Number(text) > 50 && Number(text) % 2 === 1;
  if (instances.some(isWrong)) return refusal("odd");
  return { kind: "predictions", texts: instances.map((text) => `"p${text}"`) };
}

function parts(own: Partial<AnsweringParts>): AnsweringParts {
  return {
    ask: (instances) => Promise.resolve(answerOf(instances)),
    clock: new ManualClock(),
    random: () => 0,
    signal: new AbortController().signal,
    retryForMs: 300_000,
    onRetry: () => undefined,
    onTooMany: () => undefined,
    ...own,
  };
}

async function* chunksOf(text: string, bytes: number): AsyncGenerator<Buffer, void> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += bytes)
    yield await Promise.resolve(all.subarray(at, at + bytes));
}

/** The lines that one run adds to what is there, up to a failure after so many requests. */
async function run(
  input: string,
  written: string,
  { size, width, chunkBytes, fails, interruptAfter }: Course,
): Promise<string> {
  const count = new LineCount();
  count.take(Buffer.from(written));
  let output = written.slice(0, count.whole.bytes);
  const clock = new ManualClock();
  let asked = 0;
  const answering = new Answering(
    parts({
      clock,
      ask: async (instances) => {
        asked += 1;
        if (asked > interruptAfter) throw new WinnowError("CANCELLED", "interrupted");
        for (let turn = 0; turn < (asked * 7) % 4; turn += 1) await Promise.resolve();
        return fails[asked % fails.length] === true ? PASSING : answerOf(instances);
      },
      onRetry: () => queueMicrotask(() => clock.advance(20_000)),
    }),
  );
  const lines = linesOf(chunksOf(input, chunkBytes), LINE_BYTES_MAX);
  try {
    await runOrdered({
      batches: batchesOf(lines, {
        size: () => size,
        lineBytesMax: LINE_BYTES_MAX,
        skip: count.whole.lines,
      }),
      answer: (instances) => answering.answer(instances),
      concurrency: () => width,
      signal: new AbortController().signal,
      write: ({ text }) => {
        output += text;
        return Promise.resolve();
      },
    });
  } catch (error) {
    if (!(error instanceof WinnowError) || error.code !== "CANCELLED") throw error;
    // A line that was cut as the process ended.
    output += '{"insta';
  }
  return output;
}

interface Course {
  readonly size: number;
  readonly width: number;
  readonly chunkBytes: number;
  readonly fails: readonly boolean[];
  readonly interruptAfter: number;
}

function expectedLine(line: string): string[] {
  if (line.trim() === "") return [];
  if (line.length > LINE_BYTES_MAX || line === "nonsense") return ["error null"];
  const reply = answerOf([line]);
  return [reply.kind === "predictions" ? `${line} p${line}` : `error ${line}`];
}

function toldLine(line: string): string {
  const { instance, prediction } = JSON.parse(line) as { instance: unknown; prediction?: string };
  return prediction === undefined
    ? `error ${String(instance)}`
    : `${String(instance)} ${prediction}`;
}

const inputLine = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 99 }).map(String) },
  fc.constantFrom("", "  ", "nonsense", "9".repeat(30)),
);
const course = fc.record({
  size: fc.integer({ min: 1, max: 9 }),
  width: fc.integer({ min: 1, max: 4 }),
  chunkBytes: fc.integer({ min: 1, max: 50 }),
  fails: fc.array(fc.boolean(), { minLength: 2, maxLength: 6 }).map((some) => some.concat(false)),
  interruptAfter: fc.integer({ min: 0, max: 12 }),
});

test("each line has exactly one line, in order, after failures, halvings, interruptions and cut lines", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(inputLine, { maxLength: 60 }),
      fc.array(course, { maxLength: 4 }),
      course,
      async (lines, interrupted, last) => {
        const input = lines.join("\n");
        let output = "";
        for (const each of interrupted) output = await run(input, output, each);

        output = await run(input, output, { ...last, interruptAfter: Infinity });

        const told = output.split("\n").slice(0, -1).map(toldLine);
        expect(told).toEqual(lines.flatMap(expectedLine));
        const count = new LineCount();
        for (let at = 0; at < output.length; at += last.chunkBytes) {
          count.take(Buffer.from(output.slice(at, at + last.chunkBytes)));
        }
        const errors = told.filter((line) => line.startsWith("error")).length;
        expect(count.whole).toEqual({ lines: told.length, errors, bytes: output.length });
      },
    ),
    { numRuns: 150 },
  );
});

test("a job ends once nothing was answered for as long as --retry-for says", async () => {
  const clock = new ManualClock();
  const waits: number[] = [];
  const answering = new Answering(
    parts({
      clock,
      ask: () => Promise.resolve(PASSING),
      retryForMs: 60_000,
      onRetry: (_, waitMs) => waits.push(waitMs),
    }),
  );

  const answered = answering.answer(["1"]).catch((error: unknown) => error);
  await clock.advanceSettled(61_000);

  expect(await answered).toMatchObject({
    code: "UNAVAILABLE",
    message: "Nothing was answered for 60 s (--retry-for). busy",
  });
  expect(waits.slice(0, 3)).toEqual([100, 200, 400]);
});

test("a wait is as long as the server asks, within a minute, and longer by chance", () => {
  expect(waitMsOf(1, 3000, () => 0)).toBe(3000);
  expect(waitMsOf(1, 3000, () => 0.5)).toBe(3050);
  expect(waitMsOf(1, 9_000_000, () => 0)).toBe(60_000);
  expect(waitMsOf(40, undefined, () => 0)).toBe(5000);
});

test("a batch that was refused although each of its instances is answered was too large", async () => {
  const tooMany: number[] = [];
  const answering = new Answering(
    parts({
      ask: (instances) =>
        Promise.resolve(instances.length > 2 ? refusal("limit") : answerOf(instances)),
      onTooMany: (instances) => tooMany.push(instances),
    }),
  );

  const answered = await answering.answer(["1", "2", "3", "4"]);

  expect(answered).toEqual(['"p1"', '"p2"', '"p3"', '"p4"']);
  expect(tooMany).toEqual([4]);
});

test("a line without end takes no memory and becomes one error", async () => {
  async function* endless(): AsyncGenerator<Buffer, void> {
    const chunk = Buffer.alloc(1 << 20, "1");
    for (let piece = 0; piece < 1024; piece += 1) yield await Promise.resolve(chunk);
    yield Buffer.from("\n7\n");
  }
  const before = process.memoryUsage().rss;

  const lines: InputLine[] = [];
  for await (const some of linesOf(endless(), LINE_BYTES_MAX)) lines.push(...some);

  expect(lines.map(({ number, bytes }) => [number, bytes?.toString()])).toEqual([
    [1, undefined],
    [2, "7"],
  ]);
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 2 ** 20);
});
