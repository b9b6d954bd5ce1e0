// Calls over a real message channel, and over a real thread that ends.

import { MessageChannel, Worker } from "node:worker_threads";
import { afterEach, describe, expect, test } from "vitest";
import { WinnowError } from "../errors/errors.ts";
import { ThreadCaller, answerCalls, transferOf } from "./thread-calls.ts";
import type { AnswererParts } from "./thread-calls.ts";
import { entryBeside } from "./thread-entry.ts";
import { ThreadLink } from "./thread-link.ts";

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  await Promise.all(cleanUp.splice(0).map((end) => end()));
});

function connect<Request>(parts: AnswererParts<Request, string>) {
  const { port1, port2 } = new MessageChannel();
  cleanUp.push(() => port1.close());
  const asides: string[] = [];
  const caller = new ThreadCaller<Request, string>(port1, (aside) => asides.push(aside));
  const tell = answerCalls(port2, parts);
  return { caller, tell, asides };
}

/** Answers of a test, each given when it likes. */
function held<Value>() {
  const given: ((value: Value) => void)[] = [];
  const next = (): Promise<Value> => new Promise((resolve) => given.push(resolve));
  return { given, next };
}

describe("calls between threads", () => {
  test("are answered in any order, each with its own value", async () => {
    const { given, next } = held<string>();
    const { caller } = connect<string>({
      perform: async (request) => ({ value: `${request}: ${await next()}` }),
    });

    const answers = [caller.call<string>("a"), caller.call<string>("b")];
    await expect.poll(() => given.length).toBe(2);
    const pending = caller.pending;
    given[1]!("second");
    await answers[1];
    given[0]!("first");

    expect(await Promise.all(answers)).toEqual(["a: first", "b: second"]);
    expect([pending, caller.pending]).toEqual([2, 0]);
  });

  test("copy what lies in memory that Node shares among Buffers, both ways", async () => {
    const { caller } = connect<Uint8Array<ArrayBuffer>>({
      perform: () => {
        const value = Buffer.from("answer");
        return { value, transfer: [value.buffer] };
      },
    });
    const sent = Buffer.from("request");
    expect(sent.buffer.byteLength).toBeGreaterThan(sent.byteLength);

    const answer = await caller.call<Uint8Array>(sent, { transfer: [sent.buffer] });

    expect(Buffer.from(answer).toString()).toBe("answer");
    expect(sent.toString()).toBe("request");
  });

  test("transfer arrays both ways, each buffer once", async () => {
    const { caller } = connect<Float32Array<ArrayBuffer>>({
      perform: (request) => ({
        value: [request, request],
        transfer: transferOf([request.buffer, request.buffer]),
      }),
    });
    const sent = Float32Array.of(1, 2);

    const [first, again] = await caller.call<Float32Array[]>(sent, { transfer: [sent.buffer] });

    expect([sent.length, first, again]).toEqual([0, Float32Array.of(1, 2), Float32Array.of(1, 2)]);
  });

  test("fail with the code and words of the other thread; a fault is INTERNAL", async () => {
    const { caller } = connect<string>({
      perform: (request) => {
        if (request === "fault") throw new TypeError("not a function");
        throw new WinnowError("NOT_FOUND", "no such table");
      },
    });

    const refused = { code: "NOT_FOUND", message: "no such table" };
    await expect(caller.call("refused")).rejects.toMatchObject(refused);
    const fault = { code: "INTERNAL", message: "not a function" };
    await expect(caller.call("fault")).rejects.toMatchObject(fault);
  });

  test("fail, and are forgotten, where a request or an answer cannot be sent", async () => {
    const { caller } = connect<unknown>({ perform: () => ({ value: () => "a function" }) });

    await expect(caller.call(() => "a function")).rejects.toThrow("could not be cloned");
    const unsent = caller.pending;
    await expect(caller.call("request")).rejects.toMatchObject({ code: "INTERNAL" });

    expect([unsent, caller.pending]).toEqual([0, 0]);
  });

  test("tell when nobody waits any more, and are answered all the same", async () => {
    const { caller } = connect<string>({
      perform: (_request, signal) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason as Error)),
        ),
    });
    const client = new AbortController();

    const call = caller.call("request", { signal: client.signal });
    client.abort();

    await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
  });

  test("hear what is said beside answers, before the answer, and unasked", async () => {
    const { caller, tell, asides } = connect<string>({
      perform: (request) => {
        if (request === "wrong") throw new RangeError("wrong");
        return { value: undefined };
      },
      aside: () => "beside",
    });

    await caller.call("right");
    const afterFirst = [...asides];
    await caller.call("wrong").catch(() => undefined);
    tell("unasked");
    await expect.poll(() => asides.length).toBe(3);

    expect(afterFirst).toEqual(["beside"]);
    expect(asides).toEqual(["beside", "beside", "unasked"]);
  });

  test("fail, also later ones, once the other thread has ended; the first reason counts", async () => {
    const { caller } = connect<string>({ perform: () => new Promise(() => undefined) });
    const call = caller.call("request");

    caller.end(new WinnowError("UNAVAILABLE", "first"));
    caller.end(new WinnowError("UNAVAILABLE", "second"));

    await expect(call).rejects.toThrow("first");
    await expect(caller.call("later")).rejects.toThrow("first");
  });
});

describe("a thread that is called", () => {
  const ECHO = `
    const { parentPort } = require("node:worker_threads");
    parentPort.on("message", ({ id, request }) => {
      if (request === "throw") throw new Error("broken");
      if (request !== "wait") parentPort.postMessage({ id, value: request });
    });`;

  function start() {
    const thread = new Worker(ECHO, { eval: true });
    cleanUp.push(() => thread.terminate());
    const ends: unknown[] = [];
    const ended = (cause?: unknown): Error => new WinnowError("UNAVAILABLE", "ended", { cause });
    const link = new ThreadLink<string>(thread, { ended, onEnd: () => ends.push("end") });
    return { link, ends };
  }

  test("answers, and fails what it has when it breaks: with the cause, told once", async () => {
    const { link, ends } = start();
    const echoed = await link.call("here");

    const calls = await Promise.allSettled([link.call("wait"), link.call("throw")]);

    expect(echoed).toBe("here");
    const broken = { code: "UNAVAILABLE", cause: { message: "broken" } };
    expect(calls).toMatchObject([{ reason: broken }, { reason: broken }]);
    await link.close();
    expect([link.isEnded, link.pending, ends]).toEqual([true, 0, ["end"]]);
  });

  test("fails what it has when it is closed, and what comes later", async () => {
    const { link } = start();
    const calls = Promise.allSettled([link.call("wait")]);

    await link.close();

    expect(await calls).toMatchObject([{ reason: { message: "ended" } }]);
    await expect(link.call("later")).rejects.toThrow("ended");
  });
});

test("an entry lies beside its module, and beside its compiled form where that is a source", () => {
  const from = (url: string) => entryBeside(url, "parser-thread").href;

  expect(from("file:///src/app/dist/http/parser.js")).toBe(
    "file:///src/app/dist/http/parser-thread.js",
  );
  expect(from("file:///src/app/src/http/parser.ts")).toBe(
    "file:///src/app/dist/http/parser-thread.js",
  );
});
