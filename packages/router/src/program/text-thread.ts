// The thread that runs host steps on long texts and many numbers, one at a time. It ends when its port closes.

import { parentPort } from "node:worker_threads";
import { answerCalls, runHostStep } from "@winnow/core";
import type { ThreadAnswer } from "@winnow/core";
import { revivedTensor, tensorBuffers } from "../threads/tensor-messages.ts";
import type { TextRequest } from "./text-threads.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
answerCalls<TextRequest>(parentPort, { perform });

/** Runs a step that needs no vocabulary. @throws WinnowError as `runHostStep` */
function perform({ step, inputs }: TextRequest): ThreadAnswer {
  const outputs = runHostStep(step, inputs.map(revivedTensor), []);
  return { value: outputs, transfer: tensorBuffers(outputs) };
}
