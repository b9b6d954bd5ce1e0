// Traces of real requests through real processes, as a collector gets them: one trace from the client's
// header over the router's stages to each worker's queue and scan; nothing where the client does not sample;
// and a collector that is away costs one line of the log and no request.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type PredictMessage,
  clientOf,
  metadataOf,
} from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { supplyPorts } from "../port-supply.ts";
import { OtlpReceiver, type ReceivedSpan } from "./otlp-receiver.ts";
import { RunningCluster, pause } from "./running-cluster.ts";

const models = mkdtempSync(path.join(tmpdir(), "winnow-traces-"));
let receiver: OtlpReceiver;
let cluster: RunningCluster;
let grpcPort = 0;

/** Spans are sent 50 ms after their end; this is for a machine that is very busy. */
const SENT_WITHIN_MS = 20_000;
const PARENT = "00f067aa0ba902b7";
const traceOf = (number: number): string => `${number}`.padStart(32, "a");

beforeAll(async () => {
  await writeDemo(models, { items: 2000, users: 30, dim: 8, k: 5, seed: 1 });
  receiver = await OtlpReceiver.listen();
  [grpcPort] = (await supplyPorts(1)) as [number];
  cluster = await RunningCluster.start({
    models,
    workers: 2,
    replication: 1,
    routerArgs: ["--grpc-port", String(grpcPort), "--access-log", "all"],
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint, OTEL_BSP_SCHEDULE_DELAY: "50" },
  });
  await cluster.loaded(["movies"]);
});
afterAll(async () => {
  await cluster?.stop();
  receiver?.close();
  rmSync(models, { recursive: true, force: true });
});

async function predict(headers: Readonly<Record<string, string>>, model = "movies") {
  const body = '{"instances":["1"],"k":3}';
  const url = `${cluster.url}/v1/models/${model}:predict`;
  const response = await fetch(url, { method: "POST", body, headers });
  await response.text();
  return response;
}

/** The spans of a trace once they are all there. */
async function spansOf(traceId: string, count: number): Promise<ReceivedSpan[]> {
  const endMs = Date.now() + SENT_WITHIN_MS;
  while (receiver.ofTrace(traceId).length < count && Date.now() < endMs) await pause(20);
  return receiver.ofTrace(traceId);
}

const named = (spans: readonly ReceivedSpan[], name: string): ReceivedSpan[] =>
  spans.filter((span) => span.name === name);

/** Names from the outermost span to this one. */
function pathOf(span: ReceivedSpan, spans: readonly ReceivedSpan[]): string {
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return parent === undefined ? span.name : `${pathOf(parent, spans)} > ${span.name}`;
}

/** Spans of a search over two workers: the request, read, topK with queue, merge and two questions, write. */
const SPANS_OF_REQUEST = 14;

describe("a traced request", () => {
  test("is one trace from the client's span to every worker's scan", async () => {
    const traceId = traceOf(1);

    const response = await predict({
      traceparent: `00-${traceId}-${PARENT}-01`,
      "x-request-id": "mine-1",
    });
    const spans = await spansOf(traceId, SPANS_OF_REQUEST);

    const [root] = named(spans, "POST predict");
    expect(response.headers.get("x-request-id")).toBe("mine-1");
    expect(root).toMatchObject({
      service: "winnow-router",
      parentSpanId: PARENT,
      isError: false,
      attributes: {
        "winnow.model": "movies",
        "winnow.version": "1",
        "winnow.request_id": "mine-1",
      },
    });
    const paths = spans.map((span) => pathOf(span, spans)).toSorted();
    const scatter = "POST predict > topK";
    const worker = `${scatter} > ask worker > worker topK`;
    expect([...new Set(paths)]).toEqual(
      expect.arrayContaining([
        "POST predict",
        "POST predict > read",
        scatter,
        `${scatter} > ask worker`,
        worker,
        `${worker} > queue`,
        `${worker} > scan`,
        `${scatter} > merge`,
        `${scatter} > queue`,
        "POST predict > write",
      ]),
    );
    const searches = named(spans, "worker topK");
    expect(searches.map(({ service }) => service)).toEqual(["winnow-worker", "winnow-worker"]);
    expect(new Set(searches.map(({ parentSpanId }) => parentSpanId)).size).toBe(2);
    expect(named(spans, "scan").map(({ attributes }) => attributes)).toEqual([
      { "winnow.batch_queries": 1, "winnow.batch_rows": 1 },
      { "winnow.batch_queries": 1, "winnow.batch_rows": 1 },
    ]);
    const asked = named(spans, "ask worker").map(({ attributes }) => attributes["winnow.worker"]);
    expect(asked.map(String).toSorted()).toEqual(["w0", "w1"]);
    const kinds = (name: string): readonly number[] => named(spans, name).map(({ kind }) => kind);
    expect([...kinds("ask worker"), ...kinds("worker topK")]).toEqual([3, 3, 2, 2]);
  });

  test("has spans that lie within those that they belong to, by the day's clock", async () => {
    const traceId = traceOf(2);

    await predict({ traceparent: `00-${traceId}-${PARENT}-01` });
    const spans = await spansOf(traceId, SPANS_OF_REQUEST);

    const wrong = spans.filter((span) => {
      const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
      if (span.endMs < span.startMs) return true;
      // Clocks of two processes of one machine differ by less than this.
      return (
        parent !== undefined && (span.startMs < parent.startMs - 5 || span.endMs > parent.endMs + 5)
      );
    });
    expect(wrong).toEqual([]);
    expect(Math.abs(spans[0]!.startMs - Date.now())).toBeLessThan(60_000);
  });

  test("over gRPC takes its trace from the metadata, and says which request it was", async () => {
    const traceId = traceOf(3);
    const client = clientOf("PredictionService", grpcPort);
    const metadata = metadataOf({
      traceparent: `00-${traceId}-${PARENT}-01`,
      "x-request-id": "mine-3",
    });
    const users = {
      dtype: "DT_STRING",
      tensor_shape: { dim: [{ size: 1 }] },
      string_val: [Buffer.from("1")],
    };
    const request = { model_spec: { name: "movies" }, inputs: { input_1: users } };

    const answer = (await client.callWith("Predict", request, metadata)) as PredictMessage;
    client.close();
    const spans = await spansOf(traceId, SPANS_OF_REQUEST - 2);

    expect(answer.model_spec.name).toBe("movies");
    expect(named(spans, "grpc Predict")[0]).toMatchObject({
      parentSpanId: PARENT,
      attributes: {
        "rpc.system": "grpc",
        "winnow.model": "movies",
        "winnow.request_id": "mine-3",
      },
    });
    expect(cluster.events("router0", "request")).toContainEqual(
      expect.objectContaining({ requestId: "mine-3", api: "grpc:Predict", model: "movies" }),
    );
  });

  test("that is the client's fault has no error; spans of those it does not sample are none", async () => {
    const [unsampled, faulty] = [traceOf(4), traceOf(5)];

    await predict({ traceparent: `00-${unsampled}-${PARENT}-00` });
    await predict({ traceparent: `00-${faulty}-${PARENT}-01` }, "nobody");
    const spans = await spansOf(faulty, 2);

    const [root] = named(spans, "POST predict");
    expect(root).toMatchObject({ isError: false });
    expect(root?.attributes["http.response.status_code"]).toBe(404);
    expect(receiver.ofTrace(unsampled)).toEqual([]);
  });

  test("without a trace begins one of its own; probes begin none", async () => {
    const before = receiver.spans.length;

    await fetch(`${cluster.url}/readyz`);
    await predict({ "x-request-id": "own-6" });
    const isMine = ({ attributes }: ReceivedSpan) => attributes["winnow.request_id"] === "own-6";
    while (!receiver.spans.some(isMine)) await pause(20);

    const roots = receiver.spans.slice(before).filter((span) => span.parentSpanId === undefined);
    expect(roots.map(({ name }) => name)).toEqual(["POST predict"]);
  });
});

test("the access log tells where a request's time went, and its bytes", async () => {
  await predict({ "x-request-id": "logged-7" });

  const logged = () =>
    cluster.events("router0", "request").filter(({ requestId }) => requestId === "logged-7");
  while (logged().length === 0) await pause(20);
  const lines = logged();
  const ms = expect.any(Number) as number;
  expect(lines).toEqual([
    expect.objectContaining({
      api: "predict",
      status: 200,
      requestBytes: 25,
      readMs: ms,
      queueMs: ms,
      scatterMs: ms,
      workerQueueMs: ms,
      scanMs: ms,
      mergeMs: ms,
      writeMs: ms,
    }),
  ]);
});

test("spans that a collector leaves out of what it takes are told in one line a minute", async () => {
  receiver.answer = '{"partialSuccess":{"rejectedSpans":"3","errorMessage":"over the quota"}}';
  const told = () => cluster.events("router0", "traces are incomplete");

  await predict({});
  for (const endMs = Date.now() + SENT_WITHIN_MS; told().length === 0 && Date.now() < endMs;)
    await pause(20);
  await predict({});
  await pause(200);

  expect(told()).toMatchObject([{ message: expect.stringContaining("over the quota") }]);
  receiver.answer = "{}";
});

test("a collector that refuses costs one line of each log and no request", async () => {
  receiver.status = 400;
  const before = receiver.requests;

  const statuses = [];
  for (let sent = 0; sent < 20; sent += 1) {
    statuses.push((await predict({})).status);
    await pause(20);
  }
  while (receiver.requests < before + 9) await pause(20);
  await pause(100);

  expect(new Set(statuses)).toEqual(new Set([200]));
  const counts = ["router0", "w0", "w1"].map(
    (name) => cluster.events(name, "traces are not taken and are lost").length,
  );
  expect(counts).toEqual([1, 1, 1]);
  receiver.status = 200;
});
