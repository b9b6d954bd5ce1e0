// One number for each limit, in the same words: whether the JSON reader, the gRPC reader or the router
// itself finds a request just above it.

import { status } from "@grpc/grpc-js";
import type { SignatureTensor, Tensor } from "@winnow/core";
import { stringTensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import * as grpc from "../grpc/fixtures/grpc-client.ts";
import { postPredict } from "../http/fixtures/http-client.ts";
import * as http from "../http/server/fixtures/running-server.ts";
import { DEFAULT_REQUEST_LIMITS, instancesOf } from "./request-limits.ts";
import { RouterBench } from "../fixtures/router-bench.ts";

const { instancesMax, kMax, excludedIdsMax } = DEFAULT_REQUEST_LIMITS;

afterEach(async () => {
  await Promise.all([grpc.closeAll(), http.closeAll()]);
});

const users = (count: number): readonly string[] => Array.from({ length: count }, () => "42");

const started = (): Promise<RouterBench> => RouterBench.started({ held: [[0, 1, 2, 3]] });

describe("the batch of a request", () => {
  const input = (name: string): SignatureTensor => ({
    name,
    dtype: "int64",
    shape: undefined,
    graphTensor: name,
    value: 0,
  });
  const int64 = (shape: readonly number[], ...values: readonly bigint[]): Tensor => ({
    dtype: "int64",
    shape,
    data: BigInt64Array.from(values),
  });

  test("with a sparse input is what its dense shape says, however few values it has", () => {
    const names = ["tags/dense_shape", "tags/indices", "tags/values"];
    const signature = { inputs: names.map(input) };
    const inputs = new Map([
      ["tags/dense_shape", int64([2], 10n ** 12n, 2n)],
      ["tags/indices", int64([1, 2], 0n, 0n)],
      ["tags/values", int64([1], 3n)],
    ]);

    expect(instancesOf(signature, inputs)).toBe(10 ** 12);
    inputs.delete("tags/indices");
    expect(instancesOf(signature, inputs)).toBe(2);
  });
});

describe("above a limit", () => {
  test.each([kMax + 1, 9000, 20_000])("k = %i is told the same by REST and router", async (k) => {
    const { port, predictor } = await http.start();
    const bench = await started();
    const message = `"k" is ${k}; it must be an integer from 1 to ${kMax}`;

    const overRest = await postPredict(port, JSON.stringify({ instances: ["42"], k }));

    expect([overRest.status, http.errorOf(overRest.text)]).toEqual([400, message]);
    expect(predictor.requests).toEqual([]);
    await expect(bench.predict([1], { k })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message,
    });
  });

  test("one instance more is told the same by REST, gRPC and router", async () => {
    const { port, predictor: restPredictor } = await http.start();
    const { prediction, predictor: grpcPredictor } = await grpc.start();
    const bench = await started();
    const count = instancesMax + 1;
    const of = `has ${count} instances, or values of one list; at most ${instancesMax} are allowed`;
    const message = `Input "input_1" ${of}`;

    const overRest = await postPredict(port, JSON.stringify({ instances: users(count) }));
    const overGrpc = prediction.call("Predict", {
      ...grpc.RETRIEVAL,
      inputs: { input_1: grpc.strings(users(count)) },
    });

    expect([overRest.status, http.errorOf(overRest.text)]).toEqual([400, message]);
    await expect(overGrpc).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: message,
    });
    expect([restPredictor.requests, grpcPredictor.requests]).toEqual([[], []]);
    expect([restPredictor.pins, grpcPredictor.pins]).toEqual([0, 0]);
    await expect(bench.predict(users(count).map(Number))).rejects.toMatchObject({
      message: `Input "user" ${of}`,
    });
  });

  test("one excluded id more is told the same by REST and router", async () => {
    const { port } = await http.start();
    const bench = await started();
    const exclude = Array.from({ length: excludedIdsMax + 1 }, (_, id) => `${id}`);
    const count = excludedIdsMax + 1;
    const message = `"exclude" has ${count} ids; at most ${excludedIdsMax} ids are allowed`;

    const overRest = await postPredict(port, JSON.stringify({ instances: ["42"], exclude }));

    expect([overRest.status, http.errorOf(overRest.text)]).toEqual([400, message]);
    const refused = bench.predict([1], { exclude: [stringTensor(exclude)] });
    await expect(refused).rejects.toMatchObject({ message });
  });
});

test("what is just within the limits is answered over REST and gRPC", async () => {
  const { port } = await http.start();
  const { prediction } = await grpc.start();

  const instances = users(instancesMax);
  const overRest = await postPredict(port, JSON.stringify({ instances, k: kMax }));
  const overGrpc = await prediction.call("Predict", {
    ...grpc.RETRIEVAL,
    inputs: { input_1: grpc.strings(instances) },
  });

  expect(overRest.status).toBe(200);
  expect(overGrpc).toMatchObject({ model_spec: { name: "retrieval" } });
});

test("an operator's limit is the one that every message names", async () => {
  const { port } = await http.start({}, { kMax: 7 });
  const bench = await RouterBench.started({ held: [[0, 1, 2, 3]], options: { kMax: 7 } });
  const message = '"k" is 8; it must be an integer from 1 to 7';

  const overRest = await postPredict(port, '{"instances": ["42"], "k": 8}');

  expect(bench.router.limits.kMax).toBe(7);
  expect(http.errorOf(overRest.text)).toBe(message);
  await expect(bench.predict([1], { k: 8 })).rejects.toMatchObject({ message });
});
