// Entry of the process that runs dense parts: it owns ONNX Runtime, so that a fault of it ends this
// process alone. ONNX Runtime's `run` blocks its thread, so requests are read with blocking reads as
// well, and handled in order, one at a time. The process ends when its parent's end of the socket does.

import type { EventEmitter } from "node:events";
import { readSync, writeSync } from "node:fs";
import process from "node:process";
import { isDtype, systemClock } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { FrameReader, tensorFrame, tensorHeaders, tensorsOf } from "./dense-frames.ts";
import type { DenseAnswer, DenseRequest, DenseShapes, Frame, NamedTensor } from "./dense-frames.ts";
import { onnxRuntime } from "./onnx-runtime.ts";
import type { OnnxSession, OnnxTensor, OnnxValue } from "./onnx-runtime.ts";

/** The socket to the parent. */
const SOCKET = 3;
const PIECE_BYTES = 2 ** 18;
const MESSAGE_CHARACTERS_MAX = 512;
const LOG_FATAL_ONLY = 4;

const threads = Number(process.argv[2] ?? 1);
const sessions = new Map<number, OnnxSession>();

// A terminal and a supervisor may signal the whole group of processes: the parent drains, and this process
// must answer until it does.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

const reader = new FrameReader<DenseRequest>();
const piece = new Uint8Array(PIECE_BYTES);
send({ kind: "ready" }, []);
void answerAll();

async function answerAll(): Promise<void> {
  let isStarted = false;
  for (let bytes = receive(); bytes > 0; bytes = receive()) {
    for (const frame of reader.read(piece.subarray(0, bytes))) {
      await answer(frame);
      if (!isStarted) tellStarted();
      isStarted = true;
    }
  }
  // If the parent is gone, no cleanup by ONNX Runtime is needed.
  process.exit(0);
}

/**
 * Tells the bundle's loader, once the first answer was sent, that this process has started: it then keeps what V8
 * compiled. Its timer would not run here, and its parent kills this process.
 */
function tellStarted(): void {
  (process as EventEmitter).emit("winnow:started");
}

function receive(): number {
  try {
    return readSync(SOCKET, piece, 0, PIECE_BYTES, null);
  } catch {
    return 0; // The parent ended without closing the socket.
  }
}

function send(header: DenseAnswer, tensors: readonly Tensor[], ms = 0): void {
  const frame = tensorFrame(header, tensors, ms);
  try {
    for (let at = 0; at < frame.length;) at += writeSync(SOCKET, frame, at);
  } catch {
    process.exit(0);
  }
}

async function answer(frame: Frame<DenseRequest>): Promise<void> {
  const startMs = systemClock.nowMs();
  try {
    const { outputs = [], shapes } = await handle(frame);
    const ms = systemClock.nowMs() - startMs;
    const tensors = outputs.map(([, tensor]) => tensor);
    send({ kind: "done", outputs: tensorHeaders(outputs), shapes }, tensors, ms);
  } catch (error) {
    send({ kind: "failed", message: messageOf(error) }, [], systemClock.nowMs() - startMs);
  }
}

interface Done {
  readonly outputs?: readonly NamedTensor[];
  readonly shapes?: DenseShapes;
}

async function handle({ header, body }: Frame<DenseRequest>): Promise<Done> {
  switch (header.kind) {
    case "load": {
      const session = await openSession(body.subarray(0, header.bytes));
      sessions.set(header.model, session);
      const { inputMetadata, outputMetadata } = session;
      return { shapes: { inputs: shapesOf(inputMetadata), outputs: shapesOf(outputMetadata) } };
    }
    case "run": {
      const inputs = tensorsOf(header.inputs, body);
      return { outputs: await run(sessionOf(header.model), inputs, header.outputs) };
    }
    case "release":
      await sessionOf(header.model).release();
      sessions.delete(header.model);
      return {};
  }
}

/** Shapes with the sizes that ONNX Runtime finds where the model declares none. */
function shapesOf(values: readonly OnnxValue[]): Record<string, readonly number[]> {
  const known = values.flatMap((value): [string, readonly number[]][] => {
    if (!value.isTensor) return [];
    return [[value.name, value.shape.map((size) => (typeof size === "number" ? size : -1))]];
  });
  return Object.fromEntries(known);
}

function openSession(onnx: Uint8Array): Promise<OnnxSession> {
  return onnxRuntime.InferenceSession.create(onnx, {
    executionProviders: ["cpu"],
    intraOpNumThreads: threads,
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
  if (!isDtype(type)) throw new Error(`Outputs of type ${type} are not served`);
  return { dtype: type, shape: [...dims], data } as Tensor;
}

function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.slice(0, MESSAGE_CHARACTERS_MAX);
}
