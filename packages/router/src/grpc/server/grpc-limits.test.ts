// How long calls are waited for, and how much of anything is taken.

import { status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { gate, until } from "../../http/server/fixtures/running-server.ts";
import {
  RETRIEVAL,
  closeAll,
  failureOf,
  messageType,
  start,
  strings,
} from "../fixtures/grpc-client.ts";

const DEADLINE_MS = 1000;

afterEach(closeAll);

const ONE = strings(["42"]);
/** A text, and a shape that repeats it. */
const LONG = strings(["42"], [20_000_000]);

/** Messages of 150,000 fields that nobody knows. */
const unknownFields = (messages = 1): Buffer =>
  Buffer.alloc(messages * 300_000, Buffer.of(0x78, 0));
const predictOf = (tensor: Buffer): Buffer =>
  Buffer.concat([
    messageType("tensorflow.serving.PredictRequest").serialize({
      model_spec: { name: "retrieval" },
    }),
    inField(2, Buffer.concat([Buffer.from("\n\u0007input_1"), inField(2, tensor)])),
  ]);
const inferOf = (contents: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from("\n\u0009retrieval"),
    inField(
      5,
      Buffer.concat([Buffer.from("\n\u0007input_1\u0012\u0005BYTES\u0018\u0001"), contents]),
    ),
  ]);
const parameterOf = (text: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from("\n\u0009retrieval"),
    Buffer.from("*\u001a\n\u0007input_1\u0012\u0005BYTES\u0018\u0001*\u0006B\u000442--"),
    inField(4, Buffer.concat([Buffer.from("\n\u0006filter"), inField(2, inField(3, text))])),
  ]);

const ones = (count: number): Buffer => Buffer.alloc(count, 1);
const reloadOf = (model: Buffer): Buffer => inField(1, inField(1, inField(1, model)));
const label = (at: number): Buffer =>
  inField(8, Buffer.concat([inField(1, Buffer.from(`l${at}`))]));

/** A message with these bytes as a field. */
function inField(field: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.of(field * 8 + 2), inLength(bytes)]);
}

/** Bytes after their length. */
function inLength(bytes: Buffer): Buffer {
  const length: number[] = [];
  for (let left = bytes.length; left > 0; left >>>= 7) {
    length.push((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

describe("deadlines and limits", () => {
  test("L2: a client's deadline reaches the request and ends it", async () => {
    const { prediction, predictor } = await start();
    const { opened } = gate();
    // Over a connection that stands: a call must reach the server within its deadline.
    await prediction.call("Predict", RETRIEVAL);
    predictor.beforeAnswer = () => opened;

    const failure = prediction.call("Predict", RETRIEVAL, { deadline: Date.now() + DEADLINE_MS });

    await expect(failure).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
    await until(() => predictor.requests[1]?.context.signal.aborted === true);
    const { deadlineMs } = predictor.requests[1]!.context;
    expect(deadlineMs - performance.now()).toBeLessThan(DEADLINE_MS);
  });

  test("L2: without a client's deadline the server's own ends the call", async () => {
    const { prediction, predictor } = await start({ requestTimeoutMs: 30 });
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;

    const failure = prediction.call("Predict", RETRIEVAL, { deadline: Infinity });

    await expect(failure).rejects.toMatchObject({
      code: status.DEADLINE_EXCEEDED,
      details: "No answer within 30 ms",
    });
    open();
    await until(() => predictor.pins === 0);
  });

  test("a cancelled call aborts its request", async () => {
    const { prediction, predictor } = await start();
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;

    const { answer, cancel } = prediction.begin("Predict", RETRIEVAL);
    const failure = failureOf(answer);
    await until(() => predictor.requests.length === 1);
    cancel();
    expect(await failure).toMatchObject({ code: status.CANCELLED });

    await until(() => predictor.requests[0]?.context.signal.aborted === true);
    expect(predictor.requests[0]?.context.signal.reason).toMatchObject({ code: "CANCELLED" });
    open();
    await until(() => predictor.pins === 0);
  });

  test("R1: more calls than there are places are refused, and leave none taken", async () => {
    const { prediction, predictor } = await start({ callsMax: 2 });
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;

    const held = [prediction.call("Predict", RETRIEVAL), prediction.call("Predict", RETRIEVAL)];
    await until(() => predictor.requests.length === 2);
    const refused = prediction.call("Predict", RETRIEVAL);
    await expect(refused).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: "All 2 places for calls are taken; try again",
    });
    open();
    await Promise.all(held);

    await expect(prediction.call("Predict", RETRIEVAL)).resolves.toBeDefined();
  });

  test("R1: a request or answer above the message limit is RESOURCE_EXHAUSTED", async () => {
    const { prediction } = await start({ messageBytesMax: 5000 });
    const long = { ...RETRIEVAL, inputs: { input_1: strings(["x".repeat(6000)]) } };
    const wide = {
      ...RETRIEVAL,
      inputs: { input_1: strings(["42"], [200]) },
    };

    const { call } = prediction;

    await expect(call("Predict", long)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await expect(call("Predict", wide)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/^The answer has \d+ bytes; at most 5000 are sent/),
    });
  });

  test("R1: requests beyond the bytes that may be worked on are refused", async () => {
    const { prediction } = await start({ requestBytesInFlightMax: 10 });

    await expect(prediction.call("Predict", RETRIEVAL)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
    });
  });

  test("R1: inputs beyond the memory for those of all requests are refused, however short their message", async () => {
    const tensorBytesInFlightMax = 200_000;
    const { server, prediction, inference, predictor } = await start({ tensorBytesInFlightMax });
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;
    const text = "x".repeat(999);
    const long = { model_spec: { name: "retrieval" }, inputs: { input_1: strings([text], [150]) } };
    const tensors = (): number | undefined =>
      server.held().find(({ kind }) => kind === "tensors")?.bytes;

    const { answer: first } = prediction.begin("Predict", long);
    await until(() => predictor.requests.length === 1);
    const refused = {
      code: status.UNAVAILABLE,
      details: expect.stringMatching(/^No memory for the inputs of this request, which take \d+ /),
    };
    await expect(prediction.call("Predict", long)).rejects.toMatchObject(refused);
    const contents = Buffer.concat(
      Array.from({ length: 150 }, () => inField(8, Buffer.from(text))),
    );
    const shape = Buffer.from("\n\u0007input_1\u0012\u0005BYTES\u001a\u0002\u0096\u0001", "latin1");
    const infer = Buffer.concat([
      Buffer.from("\n\u0009retrieval"),
      inField(5, Buffer.concat([shape, inField(5, contents)])),
    ]);
    await expect(inference.send("ModelInfer", infer)).rejects.toMatchObject(refused);
    // A short request is answered beside them.
    const { answer: short } = prediction.begin("Predict", RETRIEVAL);
    await until(() => predictor.requests.length === 2);
    expect(tensors()).toBeGreaterThan(150_000);
    open();
    await Promise.all([first, short]);

    expect(tensors()).toBe(0);
    await inference.send("ModelInfer", infer);
    await prediction.call("Predict", long);
    expect(tensors()).toBe(0);
  });

  test.each<[string, "prediction" | "models" | "inference", string, Buffer, string]>([
    ["fields", "prediction", "Predict", unknownFields(), "more than 131072 fields"],
    ["nested", "prediction", "Predict", inField(1, unknownFields()), "more than 131072 fields"],
    [
      "in groups",
      "prediction",
      "Predict",
      Buffer.alloc(300_000, Buffer.of(0x7b, 0x7c)),
      "more than 131072 fields",
    ],
    [
      "of examples",
      "prediction",
      "Classify",
      inField(2, inField(1, unknownFields())),
      "more than 131072 fields",
    ],
    ["of a status", "models", "GetModelStatus", unknownFields(), "more than 131072 fields"],
    ["of an input", "inference", "ModelInfer", inField(5, unknownFields()), "more than 131072"],
    [
      "texts",
      "models",
      "GetModelStatus",
      inField(1, inField(1, Buffer.alloc(2 ** 20 + 1, "a"))),
      "texts of more than 1048576 bytes",
    ],
    [
      "models of a reload",
      "models",
      "HandleReloadConfigRequest",
      inField(1, inField(1, Buffer.alloc(2 ** 20, Buffer.of(0x0a, 0)))),
      "the list of models has 1048584 bytes; at most 1048576 are allowed",
    ],
    [
      "models of a reload",
      "models",
      "HandleReloadConfigRequest",
      inField(1, inField(1, Buffer.alloc(2 * 513, Buffer.of(0x0a, 0)))),
      "Cannot reload: it lists more than 512 models",
    ],
    [
      "versions of a reload",
      "models",
      "HandleReloadConfigRequest",
      reloadOf(inField(7, Buffer.concat([Buffer.of(0xb2, 6), inLength(inField(1, ones(1025)))]))),
      "Cannot reload: a model names more than 1024 versions",
    ],
    [
      "bytes of versions of a reload",
      "models",
      "HandleReloadConfigRequest",
      reloadOf(
        inField(7, Buffer.concat([Buffer.of(0xb2, 6), inLength(inField(1, ones(900_000)))])),
      ),
      "Cannot reload: a model names more than 1024 versions",
    ],
    [
      "labels of a reload",
      "models",
      "HandleReloadConfigRequest",
      reloadOf(Buffer.concat(Array.from({ length: 1025 }, (_, at) => label(at)))),
      "Cannot reload: a model has more than 1024 labels",
    ],
    [
      "of a tensor",
      "prediction",
      "Predict",
      predictOf(unknownFields(8)),
      "more than 1048576 fields",
    ],
    [
      "of contents",
      "inference",
      "ModelInfer",
      inferOf(inField(5, unknownFields(8))),
      "more than 1048576 fields",
    ],
    [
      "bytes of a parameter",
      "inference",
      "ModelInfer",
      parameterOf(Buffer.alloc(2 ** 23 + 1, " ")),
      "A parameter has 8388609 bytes; at most 8388608 are allowed",
    ],
    [
      "values of a parameter",
      "inference",
      "ModelInfer",
      parameterOf(Buffer.from(`[${"1,".repeat(300_000)}1]`)),
      "more than 262144 JSON values",
    ],
  ])("R1: more than any request has use for is refused: %s", async (...given) => {
    const [, service, method, bytes, problem] = given;
    const running = await start({}, async () => undefined);

    await expect(running[service].send(method, bytes)).rejects.toMatchObject({
      details: expect.stringContaining(problem) as string,
    });
  });

  test.each<[string, object, string]>([
    ["instances", { input_1: LONG }, 'Input "input_1" has 20000000 instances'],
    [
      "dimensions",
      { input_1: strings(["42"], [4096, 5000]) },
      'Input "input_1" must have shape [?], not [4096,5000]',
    ],
    ["ids", { input_1: ONE, "winnow.exclude": LONG }, '"exclude" has 20000000 ids'],
    ["ids", { input_1: ONE, "winnow.include": LONG }, '"include" has 20000000 ids'],
    ["names", { input_1: ONE, "winnow.return": LONG }, "winnow.return has 20000000 values"],
    [
      "filters",
      {
        input_1: strings(["42"], [65]),
        "winnow.filter": strings(Array.from({ length: 65 }, (_, at) => `{"year":${at}}`)),
      },
      '"filter" has 65 different filters',
    ],
  ])("R1: too many %s are refused before they are made of a shape", async (...given) => {
    const [, inputs, problem] = given;
    const { prediction } = await start();

    const answer = prediction.call("Predict", { model_spec: { name: "retrieval" }, inputs });

    await expect(answer).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining(problem) as string,
    });
  });

  test("a request of more names than allowed is refused", async () => {
    const { prediction } = await start({ namesMax: 3 });
    const request = { ...RETRIEVAL, output_filter: ["output_1", "output_2", "a"] };

    await expect(prediction.call("Predict", request)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: "The request lists more than 3 names",
    });
  });
});
