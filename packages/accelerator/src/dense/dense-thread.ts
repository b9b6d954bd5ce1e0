// The thread that runs dense parts. ONNX Runtime's `run` blocks its thread, so this thread does
// nothing else: it handles requests in order, one at a time. It ends when its port closes.

import { parentPort, workerData } from "node:worker_threads";
import { WinnowError, answerCalls } from "@winnow/core";
import type { Dtype, Tensor, ThreadAnswer } from "@winnow/core";
import { buffersOf } from "./dense-messages.ts";
import type { DenseRequest, DenseThreadSettings, NamedTensor } from "./dense-messages.ts";
import { onnxRuntime } from "./onnx-runtime.ts";
import type { OnnxSession, OnnxTensor } from "./onnx-runtime.ts";

const MESSAGE_CHARACTERS_MAX = 512;
const LOG_FATAL_ONLY = 4;

const settings = workerData as DenseThreadSettings;
const sessions = new Map<number, OnnxSession>();
let last: Promise<unknown> = Promise.resolve();

if (parentPort === null) throw new RangeError("this file runs in a thread");
answerCalls<DenseRequest>(parentPort, {
  perform(request) {
    const answered = last.then(() => respond(request));
    last = answered.catch(() => undefined);
    return answered;
  },
});

async function respond(request: DenseRequest): Promise<ThreadAnswer> {
  try {
    if (request.kind === "run" && Atomics.load(settings.dropped, request.place) === 1) {
      return { value: [] };
    }
    const outputs = await handle(request);
    return { value: outputs, transfer: buffersOf(outputs) };
  } catch (error) {
    throw new WinnowError("INVALID_ARGUMENT", messageOf(error), { cause: error });
  }
}

async function handle(request: DenseRequest): Promise<readonly NamedTensor[]> {
  switch (request.kind) {
    case "load":
      sessions.set(request.model, await openSession(request.onnx));
      return [];
    case "run":
      return run(sessionOf(request.model), request.inputs, request.outputs);
    case "release":
      await sessionOf(request.model).release();
      sessions.delete(request.model);
      return [];
  }
}

function openSession(onnx: Uint8Array): Promise<OnnxSession> {
  return onnxRuntime.InferenceSession.create(onnx, {
    executionProviders: ["cpu"],
    intraOpNumThreads: settings.threads,
    interOpNumThreads: 1,
    logSeverityLevel: LOG_FATAL_ONLY,
    // Idle threads of the runtime must not spin, because other threads need the processors.
    extra: { session: { intra_op: { allow_spinning: "0" }, inter_op: { allow_spinning: "0" } } },
  });
}

function sessionOf(model: number): OnnxSession {
  const session = sessions.get(model);
  if (session === undefined) throw new Error(`Model ${model} is not loaded`);
  return session;
}

async function run(
  session: OnnxSession,
  inputs: readonly NamedTensor[],
  outputs: readonly string[],
): Promise<readonly NamedTensor[]> {
  const feeds = Object.fromEntries(inputs.map(([name, tensor]) => [name, toOnnx(tensor)]));
  const results = await session.run(feeds, outputs);
  return outputs.map((name) => [name, fromOnnx(results[name]!)] as const);
}

/** ONNX Runtime names element types as Winnow does; dense parts have no strings. */
function toOnnx({ dtype, shape, data }: Tensor): OnnxTensor {
  return new onnxRuntime.Tensor(dtype, data as OnnxTensor["data"], shape);
}

function fromOnnx({ type, dims, data }: OnnxTensor): Tensor {
  return { dtype: type as Dtype, shape: [...dims], data: data.slice() } as Tensor;
}

function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.slice(0, MESSAGE_CHARACTERS_MAX);
}
