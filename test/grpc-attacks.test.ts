// The router's gRPC port under clients that no stub is like. What a door does with them is tested with the
// door (cluster/src/grpc-door); here, that this port stands behind one, with bounds that fit it.

import net from "node:net";
import { gzipSync } from "node:zlib";
import { stringTensor } from "@winnow/core";
import { afterEach, expect, test } from "vitest";
import {
  END_HEADERS,
  HEADERS,
  HTTP2_PREFACE,
  RST_STREAM,
  RawGrpcClient,
  SETTINGS_FRAME,
  callHeaders,
  framed,
  framesOf,
  http2Frame,
} from "../packages/cluster/src/grpc-door/fixtures/raw-grpc-client.ts";
import type { RawCall } from "../packages/cluster/src/grpc-door/fixtures/raw-grpc-client.ts";
import { until } from "../packages/router/src/http/server/fixtures/running-server.ts";
import {
  RETRIEVAL,
  closeAll,
  messageType,
  start,
} from "../packages/router/src/grpc/fixtures/grpc-client.ts";
import type { Running } from "../packages/router/src/grpc/fixtures/grpc-client.ts";

/** Of gRPC. */
const status = { OK: 0, DEADLINE_EXCEEDED: 4, UNAVAILABLE: 14 };
const MEBIBYTE = 1024 * 1024;
const PREDICT = "/tensorflow.serving.PredictionService/Predict";
const WATCH = "/grpc.health.v1.Health/Watch";
const REQUEST = messageType("tensorflow.serving.PredictRequest").serialize(RETRIEVAL);

const clients: RawGrpcClient[] = [];
const sockets: net.Socket[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  for (const socket of sockets.splice(0)) socket.destroy();
  await closeAll();
});

function connect({ port }: Running): RawGrpcClient {
  const client = new RawGrpcClient(port);
  clients.push(client);
  return client;
}

const held = ({ server }: Running, kind: "requests" | "answers"): number =>
  server.held().find((each) => each.kind === kind)!.bytes;
const openCalls = (calls: readonly RawCall[]): number =>
  calls.filter(({ isClosed }) => !isClosed).length;

/** What 20 calls of another client come to. */
async function otherClient({ prediction }: Running): Promise<number> {
  const calls = Array.from({ length: 20 }, () => prediction.call("Predict", RETRIEVAL));
  return (await Promise.all(calls)).length;
}

test("R1: 512 half-open calls of one connection lock nobody out", async () => {
  const running = await start();
  const socket = net.connect(running.port, "127.0.0.1");
  sockets.push(socket);
  const received: Buffer[] = [];
  socket.on("data", (chunk) => received.push(chunk));
  // A client that queues what is above the bound it is told would be harmless.
  const calls = Array.from({ length: 512 }, (_, index) =>
    http2Frame(HEADERS, callHeaders(PREDICT), { streamId: 2 * index + 1, flags: END_HEADERS }),
  );
  socket.write(Buffer.concat([HTTP2_PREFACE, http2Frame(SETTINGS_FRAME), ...calls]));
  const refused = (): number =>
    framesOf(Buffer.concat(received)).filter(({ type }) => type === RST_STREAM).length;
  await until(() => refused() >= 384);

  const answered = await otherClient(running);

  expect([answered, refused()]).toEqual([20, 384]);
});

test("R1: 512 health watches of one connection lock nobody out", async () => {
  const running = await start();
  const client = connect(running);
  const watches = Array.from({ length: 512 }, () => client.begin(WATCH));
  for (const { stream } of watches) stream.end(framed(Buffer.alloc(0)));
  await until(() => openCalls(watches) <= 4);

  const answered = await otherClient(running);

  expect([answered, openCalls(watches)]).toEqual([20, 4]);
});

test("R1: unfinished requests are counted, and given up", async () => {
  const running = await start({ connectionCheckMs: 20, bodyStallMs: 300 });
  const calls = Array.from({ length: 4 }, () => connect(running).begin(PREDICT));
  for (const { stream } of calls) {
    stream.write(framed(Buffer.alloc(4 * MEBIBYTE), { announced: 60 * MEBIBYTE }));
  }
  await until(() => held(running, "requests") > 15 * MEBIBYTE);

  await running.prediction.call("Predict", RETRIEVAL);
  await Promise.all(calls.map(({ closed }) => closed));

  expect(calls.map((call) => call.status)).toEqual(calls.map(() => status.DEADLINE_EXCEEDED));
  expect(running.gaveUp).toEqual(calls.map(() => "body stalled"));
  expect(held(running, "requests")).toBe(0);
});

test("R1: packed requests are unpacked within the memory of requests", async () => {
  const running = await start({ requestBytesInFlightMax: 48 * MEBIBYTE, bodyReserveBytes: 0 });
  const send = (content: Buffer): RawCall => {
    const call = connect(running).begin(PREDICT, { "grpc-encoding": "gzip" });
    call.stream.end(framed(gzipSync(content), { isPacked: true }));
    return call;
  };

  const bombs = Array.from({ length: 6 }, () => send(Buffer.alloc(30 * MEBIBYTE)));
  await Promise.all(bombs.map(({ closed }) => closed));
  const honest = send(REQUEST);
  await honest.closed;

  expect(bombs.map((call) => call.status)).toContain(status.UNAVAILABLE);
  expect(honest.status).toBe(status.OK);
  expect(held(running, "requests")).toBe(0);
});

test("R1: answers that are not read are cut off", async () => {
  const running = await start({ connectionCheckMs: 20, answerStallMs: 300 });
  const words = stringTensor(Array.from({ length: 8 }, () => "x".repeat(MEBIBYTE)));
  const { predictor } = running;
  const predict = predictor.predict.bind(predictor);
  let isLong = true;
  predictor.predict = async (pinned, request) => {
    const answer = await predict(pinned, request);
    if (!isLong) return answer;
    const outputs = [...answer.outputs.keys()].map((name) => [name, words] as const);
    return { ...answer, outputs: new Map(outputs) };
  };
  const calls = Array.from({ length: 3 }, () => connect(running).begin(PREDICT));
  for (const { stream } of calls) stream.pause().end(framed(REQUEST));
  // Two outputs each.
  await until(() => held(running, "answers") > 3 * 2 * 8 * MEBIBYTE);

  isLong = false;
  await running.prediction.call("Predict", RETRIEVAL);
  await until(() => held(running, "answers") === 0);

  expect(running.gaveUp).toEqual(calls.map(() => "answer stalled"));
});
