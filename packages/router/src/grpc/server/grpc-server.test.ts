// The methods besides Predict, and who hears of calls, over a real socket.

import { once } from "node:events";
import { connect, sensitiveHeaders } from "node:http2";
import type { IncomingHttpHeaders } from "node:http2";
import { status } from "@grpc/grpc-js";
import { KeyGuard, createKey, readKeys } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { RETRIEVAL, closeAll, messageType, start, strings } from "../fixtures/grpc-client.ts";
import type { ReloadedModel } from "../calls/reload-call.ts";

afterEach(closeAll);

describe("GetModelMetadata", () => {
  test("the Any holds every signature with dtypes and shapes", async () => {
    const { prediction } = await start();

    const answer = (await prediction.call("GetModelMetadata", {
      model_spec: { name: "ranking" },
      metadata_field: ["signature_def"],
    })) as { model_spec: object; metadata: Record<string, { type_url: string; value: Buffer }> };
    const packed = answer.metadata["signature_def"]!;
    const map = messageType("tensorflow.serving.SignatureDefMap").deserialize(packed.value);

    expect(answer.model_spec).toMatchObject({ name: "ranking", version: { value: "1" } });
    expect(packed.type_url).toBe("type.googleapis.com/tensorflow.serving.SignatureDefMap");
    expect(map).toMatchObject({
      signature_def: {
        __saved_model_init_op: {
          outputs: { __saved_model_init_op: { dtype: "DT_INVALID", name: "NoOp" } },
        },
        serving_default: {
          method_name: "tensorflow/serving/predict",
          inputs: {
            user_id: {
              name: "serving_default_user_id:0",
              dtype: "DT_STRING",
              tensor_shape: { dim: [{ size: "-1" }], unknown_rank: false },
            },
          },
          outputs: {
            output_1: {
              dtype: "DT_FLOAT",
              tensor_shape: { dim: [{ size: "-1" }, { size: "1" }] },
            },
          },
        },
      },
    });
  });

  test.each([
    [{}, 3, "Missing ModelSpec"],
    [
      { model_spec: { name: "ranking" } },
      3,
      "GetModelMetadataRequest must specify at least one metadata_field",
    ],
    [
      { model_spec: { name: "ranking" }, metadata_field: ["x"] },
      3,
      "Metadata field x is not supported",
    ],
    [
      { model_spec: { name: "x" }, metadata_field: ["signature_def"] },
      5,
      "Servable not found for request: Latest(x)",
    ],
  ])("%j is refused", async (request, code, details) => {
    const { prediction } = await start();

    const failure = prediction.call("GetModelMetadata", request);

    await expect(failure).rejects.toMatchObject({ code, details });
  });
});

describe("GetModelStatus", () => {
  test("all versions, newest first, with their errors", async () => {
    const { models } = await start();

    const answer = await models.call("GetModelStatus", { model_spec: { name: "broken" } });

    expect(answer).toEqual({
      model_version_status: [
        { version: "2", state: "LOADING", status: { error_code: "OK", error_message: "" } },
        {
          version: "1",
          state: "END",
          status: { error_code: "NOT_FOUND", error_message: "Op type not registered" },
        },
      ],
    });
  });

  test("a named version alone", async () => {
    const { models } = await start();

    const answer = await models.call("GetModelStatus", {
      model_spec: { name: "broken", version: { value: 2 } },
    });

    expect(answer).toMatchObject({ model_version_status: [{ version: "2", state: "LOADING" }] });
  });

  test.each([
    [{}, 3, "Missing ModelSpec"],
    [{ model_spec: { name: "x" } }, 5, "Could not find any versions of model x"],
    [
      { model_spec: { name: "broken", version: { value: 7 } } },
      5,
      "Could not find version 7 of model broken",
    ],
  ])("%j is refused", async (request, code, details) => {
    const { models } = await start();

    await expect(models.call("GetModelStatus", request)).rejects.toMatchObject({ code, details });
  });
});

describe("what Winnow does not run", () => {
  const config = {
    config: {
      model_config_list: {
        config: [
          {
            name: "m",
            base_path: "/m",
            model_platform: "tensorflow",
            model_version_policy: { specific: { versions: [3, 4] } },
            version_labels: { stable: 3 },
          },
          { name: "n", base_path: "/n" },
        ],
      },
    },
  };

  test("a reload without a hook", async () => {
    const { models } = await start();

    await expect(models.call("HandleReloadConfigRequest", config)).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
      details: expect.stringContaining("watch their model directories"),
    });
  });

  test("a reload hook gets the list of models", async () => {
    const reloads: (readonly ReloadedModel[])[] = [];
    const { models } = await start({}, async (list) => void reloads.push(list));

    const answer = await models.call("HandleReloadConfigRequest", config);

    expect(answer).toMatchObject({ status: { error_code: "OK" } });
    expect(reloads).toEqual([
      [
        {
          name: "m",
          basePath: "/m",
          platform: "tensorflow",
          versions: { kind: "specific", versions: [3, 4] },
          labels: new Map([["stable", 3]]),
        },
        {
          name: "n",
          basePath: "/n",
          platform: "",
          versions: { kind: "latest", count: 1 },
          labels: new Map(),
        },
      ],
    ]);
  });

  test("a reload of anything but a list is refused", async () => {
    const { models } = await start({}, async () => undefined);

    await expect(models.call("HandleReloadConfigRequest", {})).rejects.toMatchObject({ code: 3 });
  });
});

test("the observer hears of every call once", async () => {
  const { prediction, models, answered } = await start();

  await prediction.call("Predict", { ...RETRIEVAL, inputs: { input_1: strings(["1", "2"]) } });
  await models.call("GetModelStatus", { model_spec: { name: "x" } }).catch(() => undefined);

  expect(answered).toEqual([
    {
      requestId: expect.stringMatching(/^[0-9a-z]{8}-1$/),
      api: "Predict",
      model: "retrieval",
      version: "1",
      code: "OK",
      instances: 2,
      requestBytes: expect.any(Number),
      answerBytes: expect.any(Number),
      elapsedMs: expect.any(Number),
      stages: new Map(),
    },
    {
      requestId: expect.stringMatching(/^[0-9a-z]{8}-2$/),
      api: "GetModelStatus",
      model: "x",
      code: "NOT_FOUND",
      instances: 0,
      requestBytes: expect.any(Number),
      answerBytes: 0,
      elapsedMs: expect.any(Number),
      stages: new Map(),
    },
  ]);
});

test.each([
  ["ServerLive", "an answer"],
  ["ModelReady", "a refusal for want of a key"],
])("%s: the id of %s is not kept in its connection's table of headers", async (method) => {
  const keys = new KeyGuard(
    readKeys(createKey({ id: "shop", roles: ["predict"] }).line, "file"),
    systemClock,
  );
  const { port } = await start({}, undefined, { keys });
  const session = connect(`http://127.0.0.1:${port}`);
  const call = session.request({
    ":method": "POST",
    ":path": `/inference.GRPCInferenceService/${method}`,
    "content-type": "application/grpc",
  });
  call.resume().end(Buffer.alloc(5)); // An empty message.

  const [headers] = (await once(call, "response")) as [IncomingHttpHeaders];
  session.destroy();

  expect(headers["x-request-id"]).toBeDefined();
  expect(Reflect.get(headers, sensitiveHeaders)).toEqual(["x-request-id"]);
});
