// Entry of the thread that reads ranges of objects for a thread that waits for them (`range-reader.ts`).

import { parentPort, workerData } from "node:worker_threads";
import { toWinnowError } from "@winnow/core";
import { RangeParts } from "./range-parts.ts";
import type { RangeAnswer, RangeQuestion, RangeThreadData } from "./range-reader.ts";
import { objectStores } from "./object-stores.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
const { port, signal, environment, cache } = workerData as RangeThreadData;
const parts = new RangeParts(objectStores(environment, cache));
const done = new Int32Array(signal);

port.on("message", (question: RangeQuestion) => {
  void answer(question); // Never rejects.
});

async function answer(question: RangeQuestion): Promise<void> {
  port.postMessage(await answerOf(question));
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
}

async function answerOf(question: RangeQuestion): Promise<RangeAnswer> {
  try {
    await parts.read(question, new Uint8Array(question.target));
    return {};
  } catch (error) {
    const { code, message } = toWinnowError(error);
    return { error: { code, message } };
  }
}
