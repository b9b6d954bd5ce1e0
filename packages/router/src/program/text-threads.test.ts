// Operations on long texts in a real thread: the same outputs and errors as at once, other work meanwhile, and a place
// for so many only.

import { StringColumn, runHostStep, stringTensor, tensor } from "@winnow/core";
import type { Attribute, HostStep, Tensor } from "@winnow/core";
import { afterAll, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { TextThreads } from "./text-threads.ts";

const NEVER = new AbortController().signal;
const step = (op: string, attributes: Record<string, Attribute> = {}, count = 1): HostStep => {
  const outputs = Array.from({ length: count }, (_, at) => at);
  return { kind: "host", op, node: `node_${op}`, attributes, inputs: [], outputs };
};
const split = step("StringSplitV2", { maxsplit: -1 }, 3);
const blank = stringTensor([""], []);
const words = (count: number): Tensor => stringTensor(["ab ".repeat(count)]);
const sentence = "a-word-of-forty-two-bytes-with-its-blank-and ";
const names = Array.from({ length: 100 }, (_, at) => `name ${at}`);
const ids = tensor(
  "int64",
  [1, 100],
  BigInt64Array.from(names, (_, at) => BigInt(at)),
);

// Shared by the tests: to start a thread takes half a second of a processor.
const threads = threadsOf(2, 4);
const single = threadsOf(1, 1);
afterAll(() => Promise.all([threads.close(), single.close()]));

function threadsOf(textThreadsMax: number, textQueueMax: number): TextThreads {
  return new TextThreads(new ManualClock(), { textThreadsMax, textQueueMax });
}

test.for<[string, HostStep, Tensor[]]>([
  ["a split", split, [stringTensor([sentence.repeat(4000), "", "c d"]), blank]],
  ["lower case", step("StringLower"), [stringTensor(["ÄBC".repeat(40_000), "", "C"])]],
  [
    "a replacement",
    step("StaticRegexReplace", { pattern: "a+", rewrite: "x" }),
    [stringTensor([...names, "", "a"].flatMap((name) => Array<string>(50).fill(name)))],
  ],
  [
    "a cross",
    step("SparseCross", { N: 0, num_buckets: 1000 }, 3),
    [stringTensor(names, [1, 100]), ids],
  ],
  [
    "a selection of numbers",
    step("SelectV2"),
    [
      tensor(
        "bool",
        [300_000],
        Uint8Array.from({ length: 300_000 }, (_, at) => at % 2),
      ),
      tensor(
        "float32",
        [300_000],
        Float32Array.from({ length: 300_000 }, (_, at) => at),
      ),
      tensor("float32", [], Float32Array.of(-1)),
    ],
  ],
  [
    "numbers that are made of few",
    step("Mul"),
    [
      tensor(
        "int64",
        [1100, 1],
        BigInt64Array.from({ length: 1100 }, (_, at) => BigInt(at)),
      ),
      tensor(
        "int64",
        [1000],
        BigInt64Array.from({ length: 1000 }, (_, at) => BigInt(at)),
      ),
    ],
  ],
])("%s in a thread gives what it gives at once", async ([, asked, inputs]) => {
  const outputs = await threads.run(asked, inputs, NEVER);

  expect(withBytes(outputs)).toEqual(withBytes(runHostStep(asked, inputs, [])));
});

/** Tensors with numbers as bytes: a million of them one by one take seconds to compare. */
function withBytes(tensors: readonly Tensor[] | undefined): readonly unknown[] | undefined {
  return tensors?.map(({ data, ...rest }) => {
    if (!ArrayBuffer.isView(data)) return { ...rest, data };
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("latin1");
    return { ...rest, kind: data.constructor.name, bytes };
  });
}

test("a text that is a slice goes over without the rest of its column, and stays whole here", async () => {
  const column = StringColumn.fromText(["never", "A".repeat(200_000), "after"]).slice(1, 2);
  const slice = tensor("string", [1], column);

  const outputs = await threads.run(step("StringLower"), [slice], NEVER);

  expect(outputs).toEqual([stringTensor(["a".repeat(200_000)])]);
  expect(slice.data.textAt(0)).toBe("A".repeat(200_000));
});

test("a refusal of the operation comes back with its code", async () => {
  const running = threads.run(split, [words(1_100_000), blank], NEVER);

  await expect(running).rejects.toMatchObject({
    code: "RESOURCE_EXHAUSTED",
    message: expect.stringContaining("1048576 strings") as string,
  });
});

test("as many numbers as instances of usual models have are left to the event loop", () => {
  const features = tensor("float32", [4096, 64], new Float32Array(4096 * 64));

  expect(threads.run(step("Mul"), [features, features], NEVER)).toBeUndefined();
});

test("little text, and a step that needs a vocabulary, are left to the event loop", () => {
  const find = { ...step("LookupTableFindV2"), vocabulary: 0 };

  expect(threads.run(split, [words(1000), blank], NEVER)).toBeUndefined();
  expect(threads.run(find, [words(60_000), blank], NEVER)).toBeUndefined();
});

test("the event loop turns while a thread works", async () => {
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);

  await threads.run(split, [words(400_000), blank], NEVER);
  isOver = true;

  expect(turns).toBeGreaterThan(10);
});

test("more steps than threads wait; those for which there is no place are refused", async () => {
  const long = [stringTensor([sentence.repeat(20_000)]), blank];
  const running = single.run(split, long, new AbortController().signal);
  const gone = new AbortController();
  const waiting = single.run(split, long, gone.signal);

  await expect(single.run(split, long, new AbortController().signal)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining("--text-queue-max") as string,
  });
  gone.abort(new Error("the client left"));
  await expect(waiting).rejects.toThrow("the client left");
  const after = single.run(split, long, new AbortController().signal);
  const [first] = (await running)!;
  expect(first!.shape).toEqual([20_000, 2]);
  expect((await after)![0]!.shape).toEqual(first!.shape);
});

test("a request goes on with what was just made, one step at a time, before another begins", async () => {
  const one = threadsOf(1, 1);
  const done: string[] = [];
  const text = [stringTensor([sentence.repeat(4000)])];
  const ask = async (name: string, signal: AbortSignal): Promise<void> => {
    await one.run(step("StringLower"), text, signal);
    done.push(name);
  };
  const [first, second] = [new AbortController().signal, new AbortController().signal];
  const branches = ["a", "b"].map(async (name) => {
    await ask(`first ${name}`, first);
    await ask(`first ${name} again`, first);
  });

  await Promise.all([...branches, ask("second", second)]);

  await one.close();
  expect(done).toEqual(["first a", "first a again", "first b", "first b again", "second"]);
});
