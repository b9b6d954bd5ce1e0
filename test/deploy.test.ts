// The manifests and the image as text: what `kubectl kustomize` renders is valid Kubernetes, fits
// together, and only uses flags, settings and paths that exist. No cluster is needed.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { dumpYaml, loadYaml } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments, stringify } from "yaml";

type Fields = Record<string, unknown>;
interface KubernetesObject extends Fields {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: Fields;
}
interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly resources: { readonly requests: Fields; readonly limits: Fields };
  readonly securityContext: Fields;
  readonly readinessProbe?: Fields;
  readonly livenessProbe?: Fields;
}

const root = path.resolve(import.meta.dirname, "..");
const hasKubectl = isInstalled("kubectl");
if (!hasKubectl) process.stderr.write("kubectl is not installed: the manifests are not rendered\n");

function isInstalled(command: string): boolean {
  try {
    execFileSync(command, ["version", "--client"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

function render(directory: string): KubernetesObject[] {
  const text = execFileSync("kubectl", ["kustomize", path.join(root, directory)], {
    encoding: "utf8",
  });
  return parseAllDocuments(text).map((document) => document.toJSON() as KubernetesObject);
}

/** Wrong types and missing fields, by the Kubernetes OpenAPI rules. */
async function schemaErrors(object: KubernetesObject): Promise<string[]> {
  const module = (await import(`kubernetes-models/${object.apiVersion}/${object.kind}`)) as Record<
    string,
    new (data: unknown) => { validate(): void }
  >;
  const Model = module[object.kind];
  if (Model === undefined) return [`${object.kind} is unknown`];
  try {
    new Model(object).validate();
    return [];
  } catch (error) {
    return [`${object.kind}/${object.metadata.name}: ${String(error)}`];
  }
}

/** Misspelt fields: the typed client drops what it does not know. */
function lostFields(before: unknown, after: unknown, at: string): string[] {
  if (before === null || typeof before !== "object") return [];
  return Object.entries(before).flatMap(([key, value]) => {
    const kept = (after as Fields | undefined)?.[key];
    return kept === undefined ? [`${at}/${key}`] : lostFields(value, kept, `${at}/${key}`);
  });
}

const find = (
  objects: readonly KubernetesObject[],
  kind: string,
  name: string,
): KubernetesObject => {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined) throw new Error(`${kind}/${name} is not rendered`);
  return found;
};

const at = (value: unknown, ...keys: readonly string[]): unknown =>
  keys.reduce<unknown>((inner, key) => (inner as Fields | undefined)?.[key], value);

const containersOf = (object: KubernetesObject): Container[] =>
  at(object.spec, "template", "spec", "containers") as Container[];

describe.skipIf(!hasKubectl)("deploy/kubernetes/base", () => {
  const objects = hasKubectl ? render("deploy/kubernetes/base") : [];
  const workloads = objects.filter((object) => at(object.spec, "template") !== undefined);

  test("renders objects that the Kubernetes schema accepts", async () => {
    const errors = await Promise.all(objects.map((object) => schemaErrors(object)));

    expect(objects.length).toBeGreaterThan(8);
    expect(errors.flat()).toEqual([]);
  });

  test("has no field that a typed client does not know", () => {
    const lost = objects.flatMap((object) => {
      const kept: unknown = parse(dumpYaml(loadYaml(stringify(object))));
      return lostFields(object, kept, `${object.kind}/${object.metadata.name}`);
    });

    expect(lost).toEqual([]);
  });

  test("selects with every selector a pod template that exists", () => {
    const templates = workloads.map((object) => at(object.spec, "template", "metadata", "labels"));
    const selectors = objects
      .map((object) => at(object.spec, "selector"))
      .filter((selector) => selector !== undefined)
      .map((selector) => (at(selector, "matchLabels") ?? selector) as Fields);

    for (const selector of selectors) {
      expect(templates).toContainEqual(expect.objectContaining(selector));
    }
    expect(selectors.length).toBeGreaterThanOrEqual(8);
  });

  test("points every service port at a named container port", () => {
    const names = workloads.flatMap((object) =>
      containersOf(object).flatMap((container) => container.ports.map((port) => port.name)),
    );
    const targets = objects
      .filter((object) => object.kind === "Service")
      .flatMap((object) => at(object.spec, "ports") as { targetPort: string }[])
      .map((port) => port.targetPort);

    expect(names).toEqual(expect.arrayContaining(targets));
  });

  test("tells Prometheus to scrape every role's pods, on a port they have", () => {
    const scraped = workloads.filter((object) => {
      const annotations = at(object.spec, "template", "metadata", "annotations");
      return at(annotations, "prometheus.io/scrape") === "true";
    });

    expect(scraped.map(({ metadata }) => metadata.name).toSorted()).toEqual([
      "winnow-router",
      "winnow-shard",
    ]);
    for (const object of scraped) {
      const annotations = at(object.spec, "template", "metadata", "annotations");
      const ports = containersOf(object).flatMap((container) => container.ports);
      const port = Number(at(annotations, "prometheus.io/port"));
      expect(ports.map(({ containerPort }) => containerPort)).toContain(port);
    }
  });

  test("gives every container requests, a memory limit, probes and the restricted profile", () => {
    for (const container of workloads.flatMap((object) => containersOf(object))) {
      expect(container.resources.requests).toHaveProperty("cpu");
      expect(container.resources.requests).toHaveProperty("memory");
      expect(container.resources.limits).toHaveProperty("memory");
      expect(container.readinessProbe).toBeDefined();
      expect(container.livenessProbe).toBeDefined();
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    }
  });

  test("keeps the router's grace longer than its preStop and drain, the worker's at 300 s", () => {
    const router = find(objects, "Deployment", "winnow-router");
    const worker = find(objects, "StatefulSet", "winnow-shard");

    expect(at(router.spec, "template", "spec", "terminationGracePeriodSeconds")).toBeGreaterThan(
      38,
    );
    expect(at(worker.spec, "template", "spec", "terminationGracePeriodSeconds")).toBe(300);
    expect(at(worker.spec, "podManagementPolicy")).toBe("Parallel");
    expect(at(worker.spec, "serviceName")).toBe("winnow-shard");
  });

  test("passes only flags that the command line knows", () => {
    for (const container of workloads.flatMap((object) => containersOf(object))) {
      const [role, ...args] = container.args ?? [];
      if (container.name === "redis" || role === undefined) continue;
      const help = winnow([role, "--help"]);
      for (const flag of args.filter((arg) => arg.startsWith("--"))) {
        expect(help, `${role} ${flag}`).toMatch(new RegExp(`${flag}\\b`));
      }
    }
  });

  test("sets only environment variables that the command line reads", () => {
    const settings = objects.find((object) => object.kind === "ConfigMap");
    const help = `${winnow(["worker", "--help"])}${winnow(["router", "--help"])}`;

    for (const name of Object.keys(settings?.["data"] ?? {})) expect(help).toContain(name);
  });
});

describe("deploy/Dockerfile", () => {
  const lines = readFileSync(path.join(root, "deploy/Dockerfile"), "utf8").split("\n");
  const instructions = lines.filter((line) => /^[A-Z]+ /.test(line));

  test("starts in exec form as an unprivileged user from pinned major images", () => {
    expect(instructions).toContainEqual(expect.stringMatching(/^ENTRYPOINT \["node",/));
    expect(instructions).toContain("USER 1000");
    for (const from of instructions.filter((line) => line.startsWith("FROM "))) {
      expect(from).toMatch(/^FROM node:\d+-/);
    }
  });

  test("copies only what exists", () => {
    const sources = instructions
      .filter((line) => line.startsWith("COPY ") && !line.includes("--from"))
      .flatMap((line) => line.split(/\s+/).slice(1, -1));

    const missing = sources.filter((source) => !existsSync(path.join(root, source)));

    expect(sources.length).toBeGreaterThan(4);
    expect(missing).toEqual([]);
  });
});

function winnow(args: readonly string[]): string {
  return execFileSync(process.execPath, ["packages/winnow/bin/winnow.js", ...args], {
    cwd: root,
    encoding: "utf8",
  });
}
