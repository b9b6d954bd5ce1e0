// How long calls are waited for, and how much of anything is taken.

import { status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { gate, until } from "../../http/server/fixtures/running-server.ts";
import { RETRIEVAL, closeAll, failureOf, start, strings } from "../fixtures/grpc-client.ts";

const DEADLINE_MS = 1000;

afterEach(closeAll);

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

  test("a request of more names than allowed is refused", async () => {
    const { prediction } = await start({ namesMax: 3 });
    const request = { ...RETRIEVAL, output_filter: ["output_1", "output_2", "a"] };

    await expect(prediction.call("Predict", request)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: "The request lists more than 3 names",
    });
  });
});
