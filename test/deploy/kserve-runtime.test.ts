// The runtimes for KServe, over REST and over gRPC: what is applied renders, has fields that KServe knows, and the
// command, with what KServe fills in, serves a model; the paths of the probes are answered as probes need.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, expect, test } from "vitest";
import {
  type Container,
  type Fields,
  type KubernetesObject,
  at,
  isInstalled,
  objectsOf,
  render,
  repositoryRoot,
} from "./manifests.ts";
import { clientOf } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { supplyPorts } from "../port-supply.ts";
import { readTracked } from "../tracked-files.ts";

const hasKubectl = isInstalled("kubectl", ["version", "--client"]);
const FOLDER = "deploy/kubernetes/kserve";
const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-kserve-"));
let served: ChildProcess | undefined;

afterAll(() => {
  served?.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

/** Fields of a ServingRuntimeSpec (serving.kserve.io/v1alpha1) that are used here. */
const SPEC_FIELDS = new Set([
  "annotations",
  "supportedModelFormats",
  "protocolVersions",
  "multiModel",
  "containers",
]);

const [runtime, runtimeOfGrpc] = ["", "-grpc"].map(
  (which) => objectsOf(readTracked(`${FOLDER}/cluster-serving-runtime${which}.yaml`))[0]!,
) as [KubernetesObject, KubernetesObject];

const containerOf = ({ spec }: KubernetesObject): Container =>
  (spec["containers"] as readonly [Container])[0];

/** A text with what KServe fills in. */
const filled = (text: string): string => text.replaceAll("{{.Name}}", "movies");

test.skipIf(!hasKubectl)("both are what kubectl renders", () => {
  expect(render("kserve")).toEqual([runtime, runtimeOfGrpc]);
});

test("has fields that KServe knows, the container it looks for, and restricted rights", () => {
  const container = containerOf(runtime);
  expect(runtime).toMatchObject({
    apiVersion: "serving.kserve.io/v1alpha1",
    kind: "ClusterServingRuntime",
  });
  expect(Object.keys(runtime.spec).filter((field) => !SPEC_FIELDS.has(field))).toEqual([]);
  expect(container.name).toBe("kserve-container");
  expect(runtime.spec["protocolVersions"]).toEqual(["v1", "v2"]);
  expect(container.ports).toMatchObject([{ name: "http1", containerPort: 8080 }]);
  expect(container.securityContext).toMatchObject({
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
});

test("that of gRPC differs in its name, its protocol and its only port, which Knative takes for HTTP/2", () => {
  const ofGrpc = containerOf(runtimeOfGrpc);
  const args = containerOf(runtime).args!.map((arg) => arg.replace("--port=0", "--port=9000"));
  const ports = [{ name: "h2c", containerPort: 9000, protocol: "TCP" }];

  expect(runtimeOfGrpc).toEqual({
    ...runtime,
    metadata: { name: "winnow-grpc" },
    spec: {
      ...runtime.spec,
      protocolVersions: ["grpc-v2"],
      containers: [{ ...containerOf(runtime), args, ports }],
    },
  });
  expect(ofGrpc.args).toContain("--port=9000");
});

test("serves a model over REST and gRPC with its own command, and is ready once the model is", async () => {
  const container = containerOf(runtimeOfGrpc);
  await writeDemo(path.join(directory, "demo"), { items: 300, users: 20, dim: 8, k: 5, seed: 1 });
  const models = path.join(directory, "mnt");
  const [port, grpcPort] = (await supplyPorts(2)) as [number, number];
  const args = container.args!.map((arg) =>
    filled(arg)
      .replace("/mnt/models", models)
      .replace("=8080", `=${port}`)
      .replace("=9000", `=${grpcPort}`),
  );
  served = spawn(process.execPath, [script, ...args, "--host=127.0.0.1"], { stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  const statusOf = async (probe: Fields | undefined): Promise<number> => {
    const answer = await fetch(`${url}${filled(String(at(probe, "httpGet", "path")))}`);
    await answer.text();
    return answer.status;
  };
  while ((await statusOf(container.livenessProbe).catch(() => 0)) !== 200) await pause();

  const before = await statusOf(container.readinessProbe);
  cpSync(path.join(directory, "demo/movies"), models, { recursive: true });
  while ((await statusOf(container.readinessProbe)) !== 200) await pause();
  const body = '{"instances":["1"]}';
  const answer = await fetch(`${url}/v1/models/movies:predict`, { method: "POST", body });

  const typed = '{"inputs":[{"name":"input_1","shape":[1],"datatype":"BYTES","data":["1"]}]}';
  const inferred = await fetch(`${url}/v2/models/movies/infer`, { method: "POST", body: typed });

  const inference = clientOf("GRPCInferenceService", grpcPort);
  const user = {
    name: "input_1",
    shape: [1],
    datatype: "BYTES",
    contents: { bytes_contents: [Buffer.from("1")] },
  };
  const overGrpc = await inference.call("ModelInfer", { model_name: "movies", inputs: [user] });
  inference.close();

  expect([404, 503]).toContain(before);
  expect(overGrpc).toMatchObject({ model_name: "movies", model_version: "1" });
  expect(await inferred.json()).toMatchObject({ model_name: "movies", model_version: "1" });
  expect(answer.status).toBe(200);
  expect(Object.keys(((await answer.json()) as { predictions: object[] }).predictions[0]!)).toEqual(
    ["output_1", "output_2"],
  );
});

test("the metrics path that KServe's annotations name is there", async () => {
  const annotations = runtime.spec["annotations"] as Record<string, string>;
  const help = execFileSync(process.execPath, [script, "serve", "--help"], { encoding: "utf8" });

  expect(annotations["prometheus.kserve.io/path"]).toBe("/monitoring/prometheus/metrics");
  for (const flag of containerOf(runtime).args!.slice(1))
    expect(help).toContain(flag.split("=", 1)[0]);
});

/** Between two looks at a process that starts. */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
}
