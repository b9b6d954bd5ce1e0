// Large bodies in threads: the same outcome as on the event loop, in turn, and whatever becomes of a
// thread. The threads of the first tests are real, those of the others are played.

import { EventEmitter } from "node:events";
import type { Worker } from "node:worker_threads";
import { WinnowError } from "@winnow/core";
import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import type { Dtype, Tensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { readContent } from "./body-reading.ts";
import type { BodyContent, BodyQuestion } from "./body-reading.ts";
import { RequestFuzzer } from "../server/fixtures/http-fuzz.ts";
import { resolveHttpOptions } from "../http-settings.ts";
import { DEFAULT_REQUEST_LIMITS } from "../../limits/request-limits.ts";
import { JsonReader } from "../json/json-reader.ts";
import { contentBytes } from "./parser-messages.ts";
import type { ParserRequest } from "./parser-messages.ts";
import { ParserThreads, startParserThread } from "./parser-threads.ts";
import type { StartParserThread } from "./parser-threads.ts";
import type { RequestBody } from "../body/request-body.ts";

const SETTINGS = {
  ...resolveHttpOptions({}),
  ...DEFAULT_REQUEST_LIMITS,
  jsonValuesMax: 60,
  instancesMax: 3,
  excludedIdsMax: 4,
};
const MEBIBYTE = 1024 * 1024;
const NEVER = new AbortController().signal;

const signature = (name: string, inputs: Readonly<Record<string, Dtype>>) => ({
  name,
  inputs: Object.entries(inputs).map(([input, dtype], value) => {
    return { name: input, graphTensor: input, dtype, shape: [-1], value };
  }),
});
const QUESTION: BodyQuestion = {
  kind: "predict",
  signatures: [
    signature("serving_default", { input_1: "string" }),
    signature("numbers", { x: "int64" }),
    signature("floats", { x: "float32" }),
    signature("both", { user_id: "string", movie_title: "string" }),
  ],
};
const EXAMPLES: BodyQuestion = { kind: "examples" };

const BODIES: readonly string[] = [
  '{"instances": ["42", {"b64": "/w=="}], "exclude": [["a", {"b64": "/w=="}], []], "k": 7}',
  '{"instances": ["1", "2"], "exclude": [[9007199254740993], [1]]}',
  '{"instances": ["1"], "exclude": []}',
  '{"instances": ["1", "2"], "include": [["a"], ["b", "c"]], "exclude": ["d"]}',
  '{"instances": ["1"], "include": [7], "filter": {"year": {"$in": [9007199254740993, null]}}}',
  '{"instances": ["1", "2"], "filter": [null, {"a": "x"}], "return": ["a"], "fliter": {}, "K": 1}',
  '{"instances": ["1"], "exclude": ["a", 1]}',
  '{"instances": ["1", "2", "3", "4"]}',
  '{"instances": ["\\u00e9\\ud83d\\ude00\\n"]}',
  '{"signature_name": "numbers", "instances": [-9223372036854775808, 9223372036854775807]}',
  '{"signature_name": "floats", "inputs": [[1, 2.5e-7], [NaN, Infinity]]}',
  '{"signature_name": "both", "instances": [{"user_id": "1", "movie_title": "Heat (1995)"}]}',
  '{"signature_name": "nobody", "instances": ["1"]}',
  '{"signature_name": 5, "instances": ["1"]}',
  '{"examples": [{"a": 1, "b": ["x", {"b64": "/w=="}]}]}',
  '{"examples": [{"a": [1, 2.5]}]}',
  `{"instances": [${"1,".repeat(70)}1]}`,
  "[]",
  "",
];

function bodyOf(bytes: Uint8Array | string, pieces = 3): RequestBody {
  const whole = Buffer.from(bytes);
  const step = Math.max(1, Math.ceil(whole.length / pieces));
  const chunks: Buffer[] = [];
  for (let at = 0; at < whole.length; at += step) chunks.push(whole.subarray(at, at + step));
  return {
    bytes: whole.length,
    take: () => chunks.splice(0),
    hold: () => true,
    close: () => undefined,
  };
}

/** A body of so many bytes that nobody looks into. */
const blank = (bytes: number): RequestBody => bodyOf(Buffer.alloc(bytes), 1);

const valuesOf = ({ dtype, shape, data }: Tensor): unknown => ({
  dtype,
  shape,
  values:
    dtype === "string"
      ? Array.from({ length: data.length }, (_, index) =>
          Buffer.from(data.at(index)).toString("hex"),
        )
      : Array.from(data as Iterable<number | bigint>, String),
});

/** What a content says, comparable. */
function said({ signatureName, asked }: BodyContent): object {
  if (asked === undefined) return { signatureName };
  const { inputs, exclude, include, ...rest } = asked;
  const tensors = [...inputs].map(([name, given]) => [name, valuesOf(given)]);
  const lists = { exclude: exclude?.map(valuesOf), include: include?.map(valuesOf) };
  return { signatureName, ...rest, tensors, ...lists };
}

const refusal = (error: unknown): object =>
  error instanceof WinnowError ? { code: error.code, message: error.message } : { fault: error };

let threads: ParserThreads | undefined;
afterEach(async () => threads?.close());

function create(options: Partial<typeof SETTINGS> = {}, start?: StartParserThread) {
  const clock = new ManualClock();
  let refused = 0;
  const limits = { ...SETTINGS, ...options };
  const created = new ParserThreads({ clock, limits, start, onQueueFull: () => refused++ });
  threads = created;
  return { threads: created, clock, refused: () => refused };
}

describe("a body read in a thread", () => {
  test("means what it means on the event loop, or is refused in the same words", async () => {
    const { threads } = create();
    const document = new JsonReader({ valuesMax: SETTINGS.jsonValuesMax });
    const fuzzer = new RequestFuzzer(7);
    const drawn = Array.from({ length: 600 }, () => fuzzer.next().body ?? "");
    const outcomes = { same: 0, refused: 0 };

    for (const body of [...BODIES, ...drawn]) {
      for (const question of [QUESTION, EXAMPLES]) {
        const direct = await Promise.resolve()
          .then(() => readContent(document, Buffer.from(body), { question, limits: SETTINGS }))
          .then(said, refusal);
        const threaded = await threads.read(bodyOf(body), question, NEVER).then(said, refusal);

        expect({ body, ...threaded }).toEqual({ body, ...direct });
        outcomes[Object.hasOwn(direct, "code") ? "refused" : "same"]++;
      }
    }

    expect(Math.min(outcomes.same, outcomes.refused)).toBeGreaterThan(30);
    expect(threads.threads).toBe(1);
  });

  test("is read without a pinned model as far as the model does not matter", async () => {
    const { threads } = create();
    const question: BodyQuestion = { kind: "predict", signatures: undefined };

    const sound = await threads.read(bodyOf('{"signature_name": "x"}'), question, NEVER);
    const broken = await threads.read(bodyOf("{"), question, NEVER).catch(refusal);

    expect(sound).toEqual({ signatureName: "x" });
    expect(broken).toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("is lost with its thread, and the next one is read by another", async () => {
    let started = 0;
    const { threads } = create({ parserThreadsMax: 1 }, (settings) => {
      const worker = startParserThread(settings);
      // The first thread ends while it has a body.
      if (started++ === 0) worker.once("online", () => void worker.terminate());
      return worker;
    });

    const first = threads.read(blank(8 * MEBIBYTE), QUESTION, NEVER);
    const second = threads.read(bodyOf('{"instances": ["42"]}'), QUESTION, NEVER);

    await expect(first).rejects.toThrow("thread that parses large bodies ended");
    expect((await second).asked?.instances).toBe(1);
    expect([started, threads.threads, threads.bytes]).toEqual([2, 1, 0]);
  });
});

/** A thread that answers when it is told to. */
class PlayedThread extends EventEmitter {
  asked: ParserRequest | undefined;
  #id = 0;
  ref(): void {
    this.isHolding = true;
  }
  unref(): void {
    this.isHolding = false;
  }
  isHolding = false;
  postMessage({ id, request }: { readonly id: number; readonly request: ParserRequest }): void {
    this.#id = id;
    this.asked = request;
  }
  answer(signatureName = ""): void {
    this.asked = undefined;
    const value = { kind: "content", content: { content: { signatureName } } };
    this.emit("message", { id: this.#id, value });
  }
  async terminate(): Promise<number> {
    this.emit("exit", 1);
    return 1;
  }
}

/** Threads that are played; `turn` lets what has been decided happen. */
function play(options: Partial<typeof SETTINGS> = {}) {
  const played: PlayedThread[] = [];
  const created = create(options, () => {
    const thread = new PlayedThread();
    played.push(thread);
    return thread as unknown as Worker;
  });
  const turn = async (): Promise<void> => {
    for (let count = 0; count < 20; count++) await new Promise((resolve) => setImmediate(resolve));
  };
  /** Lengths of the bodies that threads have, ascending. */
  const sizes = (): number[] =>
    played.flatMap(({ asked }) => asked?.bytes.length ?? []).toSorted((a, b) => a - b);
  const answer = async (bytes: number): Promise<void> => {
    played.find(({ asked }) => asked?.bytes.length === bytes)!.answer();
    await turn();
  };
  return { ...created, played, turn, sizes, answer };
}

describe("threads for large bodies", () => {
  test("start with the first body, and end when none has come for a while", async () => {
    const { threads, played, clock, turn } = play();
    const before = played.length;

    const read = threads.read(blank(1000), QUESTION, NEVER);
    await turn();
    const whileReading = [played.length, played[0]!.isHolding, threads.bytes];
    played[0]!.answer("it");
    const content = await read;
    const idle = [threads.threads, played[0]!.isHolding, threads.bytes];
    clock.advance(10_000);

    expect([before, whileReading]).toEqual([0, [1, true, 60 * 32]]);
    expect([content.signatureName, idle, threads.threads]).toEqual(["it", [1, false, 0], 0]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("leave one to those that are no giants, and read the others as they came", async () => {
    const { threads, played, turn, sizes, answer } = play();
    const [giant, second] = [5 * MEBIBYTE, 6 * MEBIBYTE];
    const reads = [giant, second, 1, 2, 3].map((bytes) =>
      threads.read(blank(bytes), QUESTION, NEVER),
    );
    await turn();
    const seen = [sizes()];
    for (const done of [1, giant, 2, second, 3]) {
      await answer(done);
      seen.push(sizes());
    }
    await Promise.all(reads);

    expect(seen).toEqual([[1, giant], [2, giant], [2, second], [3, second], [3], []]);
    expect(played.length).toBe(2);
  });

  test("refuse more than may wait, and forget who left", async () => {
    const { threads, played, refused, turn } = play({ parserThreadsMax: 1, parserQueueMax: 1 });
    const client = new AbortController();
    const running = threads.read(blank(10), QUESTION, NEVER);
    const leaving = threads.read(blank(11), QUESTION, client.signal);

    const full = threads.read(blank(12), QUESTION, NEVER);
    await expect(full).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "1 large bodies wait to be read already; try again",
    });
    client.abort(new WinnowError("CANCELLED", "left"));
    await expect(leaving).rejects.toThrow("left");
    const next = threads.read(blank(13), QUESTION, NEVER);
    await turn();
    played[0]!.answer("first");
    await turn();
    played[0]!.answer("next");

    expect([(await running).signatureName, (await next).signatureName]).toEqual(["first", "next"]);
    expect([refused(), threads.waiting]).toEqual([1, 0]);
  });

  test("are ended where a body outlasts its request, and others go on", async () => {
    const { threads, played, clock, turn } = play({ parserThreadsMax: 1 });
    const client = new AbortController();
    const endless = threads.read(blank(10), QUESTION, client.signal);
    const next = threads.read(blank(11), QUESTION, NEVER);
    const outcome = endless.catch((error: unknown) => String(error));
    await turn();

    client.abort(new WinnowError("DEADLINE_EXCEEDED", "over"));
    clock.advance(1999);
    await turn();
    const inTime = [played.length, threads.waiting];
    clock.advance(1);
    const lost = await outcome;
    await turn();
    played[1]!.answer("next");

    expect(inTime).toEqual([1, 1]);
    expect(lost).toContain("thread that parses large bodies ended");
    expect([(await next).signatureName, played.length]).toEqual(["next", 2]);
  });

  test("are kept where a body ends soon after its request", async () => {
    const { threads, played, clock, turn } = play({ parserThreadsMax: 1 });
    const client = new AbortController();
    const first = threads.read(blank(10), QUESTION, client.signal);
    await turn();

    client.abort(new WinnowError("CANCELLED", "left"));
    played[0]!.answer("first");
    await first;
    clock.advance(5000);

    expect([threads.threads, played.length]).toEqual([1, 1]);
  });

  test("end with the server, and with them what they had", async () => {
    const { threads, clock, turn } = play({ parserThreadsMax: 1 });
    const running = threads.read(blank(10), QUESTION, NEVER);
    const waiting = threads.read(blank(10), QUESTION, NEVER);
    const outcomes = Promise.allSettled([running, waiting]);
    await turn();

    await threads.close();

    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await expect(threads.read(blank(1), QUESTION, NEVER)).rejects.toThrow("closing");
    expect([threads.threads, clock.pendingTimers]).toEqual([0, 0]);
  });
});

test("columns are reckoned with their offsets", () => {
  const document = new JsonReader({ valuesMax: 100 });
  const body = Buffer.from('{"instances": ["abc", "de"], "exclude": ["f"]}');

  const content = readContent(document, body, { question: QUESTION, limits: SETTINGS });

  expect(contentBytes(content)).toBe(5 + 12 + 1 + 8);
});
