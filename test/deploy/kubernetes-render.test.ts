// `winnow k8s render` as a person uses it: what it prints for given flags is valid Kubernetes, says what was asked
// for, and fits together; what cannot be is refused with what would work.

import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import {
  type Fields,
  type KubernetesObject,
  at,
  containersOf,
  find,
  isForOperator,
  isWorkload,
  repositoryRoot,
  schemaErrors,
  unknownFields,
} from "./manifests.ts";
import { RENDER_REQUESTS as REQUESTS, renderedText as textOf } from "./render-requests.ts";

const main = path.join(repositoryRoot, "packages/winnow/dist/main.js");

/** As kubectl reads it, which is by YAML 1.1. */
function rendered(...flags: readonly string[]): KubernetesObject[] {
  const documents = parseAllDocuments(textOf(flags), { version: "1.1" });
  return documents.map((document) => document.toJS() as KubernetesObject);
}

describe.skipIf(!existsSync(main))("winnow k8s render (needs a build)", () => {
  test.each(Object.entries(REQUESTS))("%s: schemas accept every object", async (_, flags) => {
    const objects = rendered(...flags);

    const errors = await Promise.all(objects.map((object) => schemaErrors(object)));

    expect(errors.flat()).toEqual([]);
    expect(objects.filter((each) => !isForOperator(each)).flatMap(unknownFields)).toEqual([]);
    expect(objects.length).toBeGreaterThan(12);
  });

  test.each(Object.entries(REQUESTS))("%s: one namespace, which comes first", (_, flags) => {
    const namespace = flags.includes("--namespace") ? "shop" : "winnow";
    const [first, ...others] = rendered(...flags);

    expect(first).toMatchObject({ kind: "Namespace", metadata: { name: namespace } });
    for (const { metadata } of others) expect(metadata).toMatchObject({ namespace });
    expect(textOf(flags)).not.toMatch(
      namespace === "shop" ? /winnow\.winnow\b|="winnow"}/ : /shop/,
    );
  });

  test("a large cluster on GPUs has the images, sizes and evictions that were asked for", () => {
    const objects = rendered(...REQUESTS["a large cluster on GPUs"]!);
    const router = find(objects, "Deployment", "winnow-router");
    const workers = find(objects, "StatefulSet", "winnow-shard");
    const [container] = containersOf(workers);
    const settings = objects.find(({ metadata }) => metadata.name.startsWith("winnow-settings-"));

    expect(containersOf(router)[0]!.image).toBe("host.example.com/team/winnow:1.2.3");
    expect(container!.image).toBe("host.example.com/team/winnow-gpu:1.2.3");
    expect(workers.spec["replicas"]).toBe(8);
    expect(router.spec).not.toHaveProperty("replicas");
    expect(find(objects, "HorizontalPodAutoscaler", "winnow-router").spec).toMatchObject({
      minReplicas: 4,
      maxReplicas: 12,
    });
    expect(container!.resources).toEqual({
      requests: { cpu: "7500m", memory: "48Gi" },
      limits: { memory: "48Gi", "nvidia.com/gpu": "1" },
    });
    expect(settings).toHaveProperty("data.WINNOW_REPLICATION", "3");
    expect(find(objects, "PodDisruptionBudget", "winnow-shard").spec["maxUnavailable"]).toBe(1);
    expect(objects.map(({ kind }) => kind)).not.toContain("PersistentVolumeClaim");
    expect(at(workers.spec, "template", "spec", "volumes")).toContainEqual({
      name: "models",
      persistentVolumeClaim: { claimName: "catalogue", readOnly: true },
    });
  });

  test("settings that change give their ConfigMap, and what refers to it, another name", () => {
    const nameOf = (objects: readonly KubernetesObject[]): string =>
      objects.find(({ metadata }) => metadata.name.startsWith("winnow-settings-"))!.metadata.name;
    const objects = rendered("--replication", "1");

    const referred = objects
      .filter(isWorkload)
      .flatMap((object) => (at(containersOf(object)[0], "envFrom") ?? []) as Fields[])
      .map((source) => at(source, "configMapRef", "name"));

    expect(nameOf(objects)).not.toBe(nameOf(rendered()));
    expect(new Set(referred)).toEqual(new Set([nameOf(objects)]));
  });

  test("a cluster in a cloud has no claim, no Redis; its host, models and Prometheus are those of the flags", () => {
    const objects = rendered(...REQUESTS["a cluster in a cloud"]!);
    const scaled = find(objects, "ScaledObject", "winnow-shard");
    const workers = find(objects, "StatefulSet", "winnow-shard");

    expect(objects.map(({ metadata }) => metadata.name)).not.toContain("winnow-redis");
    expect(JSON.stringify(workers)).not.toContain("winnow-models");
    expect(containersOf(workers)[0]!.env).toContainEqual({
      name: "WINNOW_MODELS",
      value: "s3://bucket/models",
    });
    expect(scaled.spec).toMatchObject({ minReplicaCount: 3, maxReplicaCount: 12 });
    expect(JSON.stringify(scaled.spec["triggers"])).toContain("http://prometheus.observe.svc:9090");
    expect(find(objects, "Ingress", "winnow").spec).toMatchObject({
      ingressClassName: "nginx",
      rules: [{ host: "recs.example.com" }],
    });
  });

  test("with TLS, certificates carry names of the namespace, and the Secrets to be made are told", () => {
    const flags = REQUESTS["a cluster with TLS"]!;
    const objects = rendered(...flags);

    expect(find(objects, "Certificate", "winnow-router").spec["dnsNames"]).toEqual([
      "winnow",
      "winnow.shop",
      "winnow.shop.svc",
      "winnow.shop.svc.cluster.local",
    ]);
    expect(find(objects, "PersistentVolumeClaim", "winnow-models").spec).toMatchObject({
      storageClassName: "fast",
      resources: { requests: { storage: "2Ti" } },
    });
    const told = Array.from(
      textOf(flags).matchAll(/^# Needs the Secret ([\w-]+)/gm),
      ([, name]) => name,
    );
    expect(told).toEqual(["winnow-cluster-secret", "winnow-api-keys", "winnow-metrics-key"]);
    expect(textOf(flags)).toContain(
      "# Needs the Secret winnow-api-keys: kubectl -n shop create secret generic winnow-api-keys --from-file=keys=",
    );
  });

  test("with TLS and a Redis elsewhere, its URL is the Secret's alone, and none of its certificates is made here", () => {
    const flags = REQUESTS["a cluster with TLS and a Redis elsewhere"]!;
    const objects = rendered(...flags);
    const names = objects.map(({ metadata }) => metadata.name);

    expect(names).toContain("winnow-member");
    expect(names).not.toContain("winnow-redis");
    for (const [kind, name] of [
      ["Deployment", "winnow-router"],
      ["StatefulSet", "winnow-shard"],
    ] as const) {
      const { env } = containersOf(find(objects, kind, name))[0]!;
      expect(env!.filter((each) => each.name.startsWith("WINNOW_REDIS"))).toEqual([
        {
          name: "WINNOW_REDIS",
          valueFrom: { secretKeyRef: { name: "winnow-redis", key: "url" } },
        },
      ]);
      expect(env).toContainEqual({ name: "WINNOW_REQUIRE_SECURITY", value: "true" });
    }
    expect(textOf(flags)).toMatch(
      /^# Needs the Secret winnow-redis: kubectl .* --from-literal=url='rediss:/m,
    );
  });

  test("a store that the image does not read is told, as it needs another image", () => {
    const needed = (models: string): boolean =>
      /^# Needs an image with the package that reads gs:/m.test(textOf(["--models", models]));

    expect([needed("gs://bucket/m"), needed("s3://bucket/m")]).toEqual([true, false]);
  });

  test("what YAML 1.1 takes for a truth value stays text", () => {
    const redis = find(rendered(), "StatefulSet", "winnow-redis");

    expect(containersOf(redis)[0]!.args).toContain("no");
  });

  test.each([
    [["--replication", "4"], "--replication 4 needs as many workers, but --workers is 3"],
    [["--namespace", "My Shop"], "recommendations would be"],
    [["--worker-memory", "8 GB"], "8Gi would be"],
    [["--models", "nfs"], "none of claim, claim:<name> and a URL of an object store"],
    [
      ["--models", "hdfs://bucket"],
      "gs://bucket/prefix and az://account/container/prefix are read",
    ],
    [["--accelerator", "gpu", "--image", `a/b@sha256:${"0".repeat(64)}`], "name it by --gpu-image"],
    [["--autoscale-workers", "2"], "not less than --routers and --workers"],
    [["--ingress-class", "nginx"], "needs --ingress <host>"],
    [["--prometheus", "http://p:9090"], "is for --autoscale-workers <most>"],
  ])("refuses %j", (flags, expected) => {
    expect(() => textOf(flags)).toThrow(expected);
  });
});
