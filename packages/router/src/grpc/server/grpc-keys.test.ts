// Keys over gRPC: metadata of a call, the same roles as over REST, and the list of models for administrators.

import { Metadata, credentials, makeClientConstructor, status } from "@grpc/grpc-js";
import { KeyGuard, createKey, readKeys } from "@winnow/cluster";
import type { KeyRole } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import { service as healthService } from "grpc-health-check";
import { afterEach, expect, test } from "vitest";
import { RETRIEVAL, closeAll, start } from "../fixtures/grpc-client.ts";
import type { Running, ServingClient } from "../fixtures/grpc-client.ts";

afterEach(closeAll);

const made = (id: string, roles: readonly KeyRole[], limits = {}) =>
  createKey({ id, roles, ...limits });
const shop = made("shop", ["predict"], { rate: 3 });
const monitor = made("monitor", ["status"]);
const admin = made("admin", ["administer"]);

function guarded(): Promise<Running> {
  const lines = [shop, monitor, admin].map(({ line }) => line).join("\n");
  const keys = new KeyGuard(readKeys(lines, "file"), systemClock);
  return start({}, async () => undefined, { keys });
}

/** OK, or the status and details of a call with this key. */
async function codeOf(
  client: ServingClient,
  [method, request]: readonly [string, object],
  key?: string,
): Promise<string> {
  const metadata = new Metadata();
  if (key !== undefined) metadata.set("authorization", `Bearer ${key}`);
  try {
    await client.callWith(method, request, metadata);
    return "OK";
  } catch (error) {
    const { code, details } = error as { code: number; details: string };
    return `${status[code]}: ${details}`;
  }
}

const MODEL = { model_spec: { name: "retrieval" } };
const METADATA = { ...MODEL, metadata_field: ["signature_def"] };
const RELOAD = { config: { model_config_list: { config: [] } } };

test("each key may call what its roles are for", async () => {
  const { prediction, models } = await guarded();
  const calls = (key?: string) =>
    Promise.all([
      codeOf(prediction, ["Predict", RETRIEVAL], key),
      codeOf(prediction, ["GetModelMetadata", METADATA], key),
      codeOf(models, ["GetModelStatus", MODEL], key),
      codeOf(models, ["HandleReloadConfigRequest", RELOAD], key),
    ]);
  const denied = (key: string, role: string): string =>
    `PERMISSION_DENIED: The key "${key}" may not do this: it needs the role ${role}`;
  const missing = "UNAUTHENTICATED: A key is needed here: Authorization: Bearer <key>";

  expect(await calls()).toEqual([missing, missing, missing, missing]);
  expect(await calls(made("shop", ["predict"]).key)).toEqual(
    Array.from({ length: 4 }, () => "UNAUTHENTICATED: The key is not known here"),
  );
  expect(await calls(shop.key)).toEqual([
    "OK",
    "OK",
    denied("shop", "status"),
    denied("shop", "administer"),
  ]);
  expect(await calls(monitor.key)).toEqual([
    denied("monitor", "predict"),
    "OK",
    "OK",
    denied("monitor", "administer"),
  ]);
  const [, , , reload] = await calls(admin.key);
  expect(reload).not.toMatch(/PERMISSION_DENIED|UNAUTHENTICATED/);
});

test("the Open Inference Protocol's calls want the roles of its REST paths, and its probes none", async () => {
  const { inference } = await guarded();
  const input = { name: "input_1", datatype: "BYTES", shape: [1] };
  const infer = {
    model_name: "retrieval",
    inputs: [{ ...input, contents: { bytes_contents: [Buffer.from("42")] } }],
  };
  const codes = async (key?: string): Promise<string[]> => {
    const calls = [
      ["ServerLive", {}],
      ["ServerReady", {}],
      ["ServerMetadata", {}],
      ["ModelReady", { name: "retrieval" }],
      ["ModelMetadata", { name: "retrieval" }],
      ["ModelInfer", infer],
    ] as const;
    const all = await Promise.all(calls.map((call) => codeOf(inference, call, key)));
    return all.map((code) => code.split(":")[0]!);
  };
  const no = "UNAUTHENTICATED";

  expect(await codes()).toEqual(["OK", "OK", no, no, no, no]);
  expect(await codes(monitor.key)).toEqual(["OK", "OK", "OK", "OK", "OK", "PERMISSION_DENIED"]);
  expect((await codes(admin.key)).slice(2, 4)).toEqual(["OK", "PERMISSION_DENIED"]);
  expect(await codeOf(inference, ["ModelInfer", infer], shop.key)).toBe("OK");
});

test("every call is told of with its key and version, also those that are refused", async () => {
  const { prediction, models, answered } = await guarded();
  const metadata = new Metadata();
  metadata.set("x-request-id", "mine-1");

  await codeOf(prediction, ["Predict", RETRIEVAL], shop.key);
  await codeOf(models, ["GetModelStatus", MODEL], shop.key);
  const refused = prediction.begin("Predict", RETRIEVAL, metadata);
  await expect(refused.answer).rejects.toMatchObject({ code: status.UNAUTHENTICATED });

  expect(answered).toMatchObject([
    { api: "Predict", model: "retrieval", version: "1", key: "shop", code: "OK" },
    { api: "GetModelStatus", model: undefined, code: "PERMISSION_DENIED" },
    { api: "Predict", code: "UNAUTHENTICATED", requestId: "mine-1" },
  ]);
  expect((await refused.metadata).get("x-request-id")).toEqual(["mine-1"]);
});

test("details of a status repeat no key that stands in a request", async () => {
  const { prediction } = await guarded();

  const code = await codeOf(
    prediction,
    ["Predict", { ...RETRIEVAL, model_spec: { name: shop.key } }],
    shop.key,
  );

  expect(code).toMatch(/winnow_…/);
  expect(code).not.toContain(shop.key);
});

test("a key's rate holds here too, and health checks need none", async () => {
  const { prediction, port } = await guarded();
  const Health = makeClientConstructor(healthService, "health");
  const client = new Health(`127.0.0.1:${port}`, credentials.createInsecure()) as never as {
    check(request: object, reply: (error: unknown, answer: { status: string }) => void): void;
    close(): void;
  };
  const health = await new Promise((resolve) => {
    client.check({ service: "" }, (error, answer) => resolve(error ?? answer.status));
  });
  client.close();
  const codes = [];
  for (let turn = 0; turn < 12; turn += 1) {
    codes.push(await codeOf(prediction, ["Predict", RETRIEVAL], shop.key));
  }

  expect(health).toBe("SERVING");
  expect(codes[0]).toBe("OK");
  expect(codes).toContain(
    'RESOURCE_EXHAUSTED: The key "shop" may ask 3 times a second; try again later',
  );
});
