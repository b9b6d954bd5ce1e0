// Fuzzing the router's gRPC port: a short seeded run with every test run, a long one with `npm run fuzz:grpc`
// (FUZZ_REQUESTS inputs from FUZZ_SEED). Broken requests of both protocols, broken gRPC framing and packing, and
// broken sequences of HTTP/2 frames. Whatever comes, another client is answered, nothing is a fault of the
// router, and afterwards nothing is held.

import net from "node:net";
import { deflateSync, gzipSync } from "node:zlib";
import { silentLogger, systemClock } from "@winnow/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  HTTP2_PREFACE,
  RST_STREAM,
  RawGrpcClient,
  SETTINGS_FRAME,
  WINDOW_UPDATE,
  callHeaders,
  framed,
  http2Frame,
} from "../packages/cluster/src/grpc-door/fixtures/raw-grpc-client.ts";
import { ByteMutator } from "../packages/cluster/src/rpc/fixtures/byte-mutator.ts";
import {
  RETRIEVAL,
  messageType,
  strings,
} from "../packages/router/src/grpc/fixtures/grpc-client.ts";
import { resolveGrpcOptions } from "../packages/router/src/grpc/grpc-settings.ts";
import { ServingHandlers } from "../packages/router/src/grpc/server/serving-handlers.ts";
import type { FailureStatus } from "../packages/router/src/grpc/server/status-details.ts";
import { createGrpcServer } from "../packages/router/src/grpc/server/grpc-server.ts";
import type { GrpcServer } from "../packages/router/src/grpc/server/grpc-server.ts";
import {
  FixturePredictor,
  SMALL_WEIGHTS,
} from "../packages/router/src/http/doubles/fixture-predictor.ts";

const REQUESTS = Number(process.env["FUZZ_REQUESTS"] ?? 1500);
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const CLIENTS = 8;
const CALL_MS_MAX = 20_000;
const TIMEOUT_MS = 120_000 + REQUESTS * 10;
/** A connection with a broken sequence is left to the server so long, then closed. */
const SEQUENCE_MS = 5;

const PREDICT = "/tensorflow.serving.PredictionService/Predict";
const INFER = "/inference.GRPCInferenceService/ModelInfer";
const PATHS = [
  INFER,
  INFER,
  "/inference.GRPCInferenceService/ModelMetadata",
  PREDICT,
  PREDICT,
  PREDICT,
  "/tensorflow.serving.PredictionService/GetModelMetadata",
  "/tensorflow.serving.ModelService/GetModelStatus",
  "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
  "/grpc.health.v1.Health/Check",
  "/no/Where",
];
const floats = { dtype: "DT_FLOAT", tensor_shape: {}, float_val: [1, 2] };
const content = { dtype: "DT_INT64", tensor_shape: {}, tensor_content: Buffer.alloc(64, 7) };
const MESSAGES: readonly Buffer[] = [
  RETRIEVAL,
  { ...RETRIEVAL, output_filter: ["output_1"] },
  { ...RETRIEVAL, inputs: { input_1: strings(["1", "2", "42"], [3]) } },
  { ...RETRIEVAL, inputs: { input_1: strings(["42"], [50]) } },
  { ...RETRIEVAL, inputs: { input_1: floats } },
  { ...RETRIEVAL, inputs: { input_1: content, other: floats } },
  {
    model_spec: { name: "ranking", version: { value: "1" }, signature_name: "serving_default" },
    inputs: { user_id: strings(["42"]), movie_title: strings(["Heat (1995)"]) },
  },
].map((message) => messageType("tensorflow.serving.PredictRequest").serialize(message));
const input = { name: "input_1", datatype: "BYTES", shape: [2] };
const texts = { bytes_contents: ["42", "nobody"].map((text) => Buffer.from(text)) };
const INFERENCES: readonly Buffer[] = [
  { inputs: [{ ...input, contents: texts }] },
  { inputs: [input], raw_input_contents: [Buffer.from("\x02\0\0\x0042\x06\0\0\0nobody")] },
  { inputs: [{ ...input, datatype: "INT64", contents: { int64_contents: [1, -1] } }] },
  {
    inputs: [{ ...input, contents: texts, parameters: { binary_data_size: { int64_param: 4 } } }],
    outputs: [{ name: "output_1" }],
    parameters: {
      k: { int64_param: 2 },
      filter: { string_param: '{"year":{"$gte":1990}}' },
      binary_data_output: { bool_param: true },
    },
  },
].map((request) =>
  messageType("inference.ModelInferRequest").serialize({ model_name: "retrieval", ...request }),
);

/**
 * OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNIMPLEMENTED; INTERNAL where
 * TensorFlow Serving says it, and of Check for what is no message.
 */
const STATUSES = new Set([0, 3, 5, 8, 9, 12, 13]);

const errors: unknown[] = [];
const log = { ...silentLogger, error: (...said: unknown[]) => void errors.push(said) };
let predictor: FixturePredictor;
let server: GrpcServer;
let port: number;

beforeAll(async () => {
  predictor = new FixturePredictor(SMALL_WEIGHTS);
  server = createGrpcServer(
    predictor,
    { connectionCheckMs: 100, bodyStallMs: 2000, answerStallMs: 2000, drainIdleMs: 10 },
    { clock: systemClock, random: () => 0.5, log },
  );
  ({ port } = await server.listen({ host: "127.0.0.1", port: 0 }));
});
afterAll(() => server.close());

/** A call's status; "hangs" where there is none in time, `undefined` where it was reset. */
async function statusOf(
  client: RawGrpcClient,
  { path = PREDICT, headers = {}, body }: { path?: string; headers?: object; body: Buffer },
): Promise<number | string | undefined> {
  const call = client.begin(path, headers as Record<string, string>);
  call.stream.end(body);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve("hangs"), CALL_MS_MAX);
  });
  const outcome = await Promise.race([call.closed.then(() => call.status), late]);
  clearTimeout(timer);
  return outcome;
}

/** Runs so many inputs, a few at a time. */
async function inParallel(
  count: number,
  run: (client: RawGrpcClient, number: number) => Promise<void>,
): Promise<void> {
  let begun = 0;
  const worker = async (): Promise<void> => {
    let client = new RawGrpcClient(port);
    while (begun < count) {
      const number = begun++;
      if (client.session.destroyed) client = new RawGrpcClient(port);
      await run(client, number);
    }
    client.close();
  };
  await Promise.all(Array.from({ length: CLIENTS }, worker));
}

/** What must hold after all of it. */
async function expectSound(): Promise<void> {
  const client = new RawGrpcClient(port);
  expect(await statusOf(client, { body: framed(MESSAGES[0]!) })).toBe(0);
  client.close();
  await expect
    .poll(() => server.held().filter(({ bytes }) => bytes > 0), { timeout: 60_000 })
    .toEqual([]);
  expect(predictor.pins).toBe(0);
  expect(errors).toEqual([]);
}

test(
  `${REQUESTS * 10} broken messages from seed ${SEED + 3} are answered by the handlers`,
  async () => {
    const mutator = new ByteMutator(SEED + 3);
    const environment = { clock: systemClock, random: () => 0.5, log };
    const handlers = new ServingHandlers(predictor, resolveGrpcOptions({}), environment);
    const methods = [
      { answer: handlers.predictionService()["Predict"]!, messages: MESSAGES },
      { answer: handlers.inferenceService()["ModelInfer"]!, messages: INFERENCES },
    ];
    const faults: unknown[] = [];
    let answers = 0;

    for (let number = 0; number < REQUESTS * 10; number += 1) {
      const { answer, messages } = methods[number % methods.length]!;
      const request = mutator.mutated(messages);
      const call = {
        request,
        metadata: { get: () => [] },
        sendMetadata: () => undefined,
        getDeadline: () => Infinity,
        once: () => undefined,
      };
      const failure = await new Promise<FailureStatus | null>((resolve) => {
        answer(call, (status) => resolve(status));
      });
      if (failure === null) answers += 1;
      else if (!STATUSES.has(failure.code))
        faults.push({ number, failure, hex: request.toString("hex") });
    }

    expect(faults).toEqual([]);
    expect(answers).toBeGreaterThan(REQUESTS / 10);
    await expectSound();
  },
  TIMEOUT_MS,
);

test(
  `${REQUESTS} broken requests from seed ${SEED} are answered`,
  async () => {
    const mutator = new ByteMutator(SEED);
    const statuses = new Map<unknown, number>();
    const faults: unknown[] = [];

    await inParallel(REQUESTS, async (client, number) => {
      const path = mutator.pick(PATHS);
      const message = mutator.mutated(path === INFER ? INFERENCES : MESSAGES);
      const status = await statusOf(client, { path, body: framed(message) });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (!STATUSES.has(Number(status))) {
        faults.push({ number, status, path, hex: message.toString("hex") });
      }
    });

    expect(faults).toEqual([]);
    expect(statuses.get(0)).toBeGreaterThan(REQUESTS / 100);
    await expectSound();
  },
  TIMEOUT_MS,
);

test(
  `${REQUESTS} broken framings from seed ${SEED + 1} end`,
  async () => {
    const mutator = new ByteMutator(SEED + 1);
    const faults: unknown[] = [];
    const packed = MESSAGES.flatMap((message) => [
      framed(gzipSync(message), { isPacked: true }),
      framed(deflateSync(message), { isPacked: true }),
    ]);
    const whole = [
      ...packed,
      ...MESSAGES.map((message) => framed(message)),
      framed(Buffer.alloc(0)),
    ];

    await inParallel(REQUESTS, async (client, number) => {
      const body = mutator.mutated(whole);
      const headers = {
        "grpc-encoding": mutator.pick(["identity", "gzip", "gzip", "deflate", "br"]),
        ...(mutator.chance(0.1) && {
          "grpc-timeout": mutator.pick(["1n", "5S", "99999999H", "x"]),
        }),
        ...(mutator.chance(0.05) && {
          "content-type": mutator.pick(["text/plain", "application/grpc+x"]),
        }),
      };
      const status = await statusOf(client, { headers, body });
      if (status === "hangs") faults.push({ number, headers, hex: body.toString("hex") });
    });

    expect(faults).toEqual([]);
    await expectSound();
  },
  TIMEOUT_MS,
);

/** Frames of a few calls, some of them broken. */
function brokenSequence(mutator: ByteMutator): Buffer {
  const frames = [mutator.chance(0.97) ? HTTP2_PREFACE : Buffer.from("GET / HTTP/1.1\r\n\r\n")];
  if (mutator.chance(0.95)) frames.push(http2Frame(SETTINGS_FRAME));
  for (let count = 1 + mutator.below(8); count > 0; count -= 1) {
    const streamId = mutator.chance(0.9) ? 1 + 2 * mutator.below(4) : mutator.below(2 ** 31);
    const flags = mutator.chance(0.7)
      ? mutator.pick([0, END_STREAM, END_HEADERS, 5])
      : mutator.below(256);
    frames.push(http2Frame(...anyFrame(mutator), { streamId, flags }));
  }
  const whole = Buffer.concat(frames);
  return mutator.chance(0.5) ? whole : mutator.mutated([whole]);
}

function anyFrame(mutator: ByteMutator): [type: number, payload: Buffer] {
  const kind = mutator.random();
  if (kind < 0.4) return [HEADERS, callHeaders(mutator.pick(PATHS))];
  if (kind < 0.7) return [DATA, framed(mutator.mutated(MESSAGES))];
  if (kind < 0.8) return [RST_STREAM, Buffer.from([0, 0, 0, mutator.below(16)])];
  if (kind < 0.9) return [WINDOW_UPDATE, Buffer.from([0, 0, mutator.below(256), 1])];
  const payload = Buffer.from(Array.from({ length: mutator.below(40) }, () => mutator.below(256)));
  return [mutator.below(12), payload];
}

test(
  `${Math.ceil(REQUESTS / 3)} broken sequences of frames from seed ${SEED + 2} harm nobody`,
  async () => {
    const others: unknown[] = [];
    const mutator = new ByteMutator(SEED + 2);

    await inParallel(Math.ceil(REQUESTS / 3), async (client, number) => {
      const socket = net.connect(port, "127.0.0.1");
      const closed = new Promise<void>((resolve) => {
        socket.once("close", () => resolve());
      });
      socket.on("error", () => undefined).resume();
      socket.write(brokenSequence(mutator), () => {
        setTimeout(() => socket.destroy(), SEQUENCE_MS);
      });
      await closed;
      if (number % 100 === 0) others.push(await statusOf(client, { body: framed(MESSAGES[0]!) }));
    });

    expect(others).toEqual(others.map(() => 0));
    await expectSound();
  },
  TIMEOUT_MS,
);
