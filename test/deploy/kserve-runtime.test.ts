// The runtime for KServe: what is applied renders, has fields that KServe knows, and its command, with what
// KServe fills in, serves a model; the paths of its probes are answered as probes need.

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
import { supplyPorts } from "../port-supply.ts";
import { readTracked } from "../tracked-files.ts";

const hasKubectl = isInstalled("kubectl", ["version", "--client"]);
const FILE = "deploy/kubernetes/kserve/cluster-serving-runtime.yaml";
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

const [runtime] = objectsOf(readTracked(FILE)) as [KubernetesObject];
const [container] = runtime.spec["containers"] as [Container];

/** A text with what KServe fills in. */
const filled = (text: string): string => text.replaceAll("{{.Name}}", "movies");

test.skipIf(!hasKubectl)("is what kubectl renders", () => {
  expect(render("kserve")).toEqual([runtime]);
});

test("has fields that KServe knows, the container it looks for, and restricted rights", () => {
  expect(runtime).toMatchObject({
    apiVersion: "serving.kserve.io/v1alpha1",
    kind: "ClusterServingRuntime",
  });
  expect(Object.keys(runtime.spec).filter((field) => !SPEC_FIELDS.has(field))).toEqual([]);
  expect(container.name).toBe("kserve-container");
  expect(runtime.spec["protocolVersions"]).toEqual(["v1", "v2"]);
  expect(container.ports.map(({ containerPort }) => containerPort)).toEqual([8080]);
  expect(container.securityContext).toMatchObject({
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
});

test("serves a model with its own command, and is ready once the model is", async () => {
  await writeDemo(path.join(directory, "demo"), { items: 300, users: 20, dim: 8, k: 5, seed: 1 });
  const models = path.join(directory, "mnt");
  const [port] = (await supplyPorts(1)) as [number];
  const args = container.args!.map((arg) =>
    filled(arg).replace("/mnt/models", models).replace("=8080", `=${port}`),
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

  expect([404, 503]).toContain(before);
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
  for (const flag of container.args!.slice(1)) expect(help).toContain(flag.split("=", 1)[0]);
});

/** Between two looks at a process that starts. */
function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 50);
  });
}
