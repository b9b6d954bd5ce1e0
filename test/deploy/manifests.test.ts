// The manifests as text: what `kubectl kustomize` renders is valid Kubernetes, fits together, and only
// uses flags, settings and files that exist. No cluster is needed.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseAddressRules } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import {
  type Container,
  type Fields,
  type KubernetesObject,
  at,
  containersOf,
  find,
  isForOperator,
  isInstalled,
  isWorkload,
  objectsOf,
  render,
  repositoryRoot as root,
  schemaErrors,
  unknownFields,
} from "./manifests.ts";
import { readTracked, trackedFiles } from "../tracked-files.ts";

const hasKubectl = isInstalled("kubectl", ["version", "--client"]);

const manifests = trackedFiles.filter((file) => /^deploy\/kubernetes\/.*\.yaml$/.test(file));
const kustomizations = manifests.filter((file) => file.endsWith("/kustomization.yaml"));
const renderable = [
  "base",
  "overlays/dev",
  "overlays/prod-cloud",
  "overlays/prod-cloud-secure",
  "overlays/prod-cpu",
  "overlays/prod-gpu",
  "overlays/prod-secure",
];

describe("deploy/kubernetes", () => {
  test("holds YAML alone that parses", () => {
    for (const file of manifests) {
      const objects = objectsOf(readTracked(file));

      for (const object of objects) expect(object, `in ${file}`).toHaveProperty("kind");
    }
    expect(manifests.length).toBeGreaterThan(12);
  });

  test("has only kustomizations whose files exist, and no file that none of them names", () => {
    const named = kustomizations.flatMap((file) => {
      const folder = path.dirname(file);
      return namedIn(parse(readTracked(file)) as Kustomization).map((name) =>
        path.join(folder, name),
      );
    });

    const missing = named.filter((file) => !existsSync(path.join(root, file)));
    const files = trackedFiles.filter((file) => file.startsWith("deploy/kubernetes/"));
    const orphans = files.filter((file) => !kustomizations.includes(file) && !named.includes(file));

    expect(missing).toEqual([]);
    expect(orphans).toEqual([]);
  });

  test("names nothing outside itself, so that a URL of the repository can be applied", () => {
    const outside = kustomizations.flatMap((file) =>
      namedIn(parse(readTracked(file)) as Kustomization)
        .map((name) => path.join(path.dirname(file), name))
        .filter((named) => !named.startsWith("deploy/kubernetes/")),
    );

    expect(outside).toEqual([]);
  });

  test.skipIf(!hasKubectl)("is rendered from the URL of a repository as from a folder", () => {
    const repository = mkdtempSync(path.join(tmpdir(), "winnow-repository-"));
    const git = (...args: string[]): Buffer =>
      execFileSync("git", ["-C", repository, "-c", "user.name=t", "-c", "user.email=t@t", ...args]);
    try {
      const folder = "deploy/kubernetes";
      cpSync(path.join(root, folder), path.join(repository, folder), { recursive: true });
      git("init", "--quiet");
      git("add", "--all");
      git("commit", "--quiet", "--message=all");
      git("tag", "v1");

      const url = `file://${repository}//${folder}/overlays/prod-cloud?ref=v1`;
      const text = execFileSync("kubectl", ["kustomize", url], { encoding: "utf8" });

      expect(objectsOf(text)).toEqual(render("overlays/prod-cloud"));
    } finally {
      rmSync(repository, { recursive: true, force: true });
    }
  });

  test("has every component in an overlay, and every overlay in these tests", () => {
    const folders = kustomizations.map((file) =>
      path.relative("deploy/kubernetes", path.dirname(file)),
    );
    const composed = renderable.flatMap((folder) => {
      const file = path.join("deploy/kubernetes", folder, "kustomization.yaml");
      return ((parse(readTracked(file)) as Kustomization).components ?? []).map((name) =>
        path.join(folder, name),
      );
    });

    // Of another operator's kind: test/deploy/kserve-runtime.test.ts.
    expect([...new Set([...renderable, ...composed, "kserve"])].toSorted()).toEqual(
      folders.toSorted(),
    );
  });
});

interface Kustomization {
  readonly resources?: readonly string[];
  readonly components?: readonly string[];
  readonly patches?: readonly { readonly path?: string }[];
  readonly configMapGenerator?: readonly { readonly files?: readonly string[] }[];
}

/** Files and folders that a kustomization is made of, relative to it. */
function namedIn(kustomization: Kustomization): string[] {
  const { resources = [], components = [], patches = [], configMapGenerator = [] } = kustomization;
  const patched = patches.flatMap((patch) => patch.path ?? []);
  const generated = configMapGenerator.flatMap(({ files = [] }) => files);
  const sources = generated.map((file) => file.slice(file.indexOf("=") + 1));
  return [...resources, ...components, ...patched, ...sources];
}

describe.skipIf(!hasKubectl).each(renderable)("deploy/kubernetes/%s", (kustomization) => {
  const objects = hasKubectl ? render(kustomization) : [];
  const workloads = objects.filter(isWorkload);

  test("renders objects that the schemas accept", async () => {
    const errors = await Promise.all(objects.map((object) => schemaErrors(object)));

    expect(objects.length).toBeGreaterThan(8);
    expect(errors.flat()).toEqual([]);
  });

  test("has no field that a typed client does not know", () => {
    const ofKubernetes = objects.filter((object) => !isForOperator(object));

    expect(ofKubernetes.flatMap(unknownFields)).toEqual([]);
  });

  test("puts everything into the namespace and under the name winnow", () => {
    for (const { kind, metadata } of objects) {
      if (kind === "Namespace") continue;
      expect(metadata, `${kind}/${metadata.name}`).toMatchObject({ namespace: "winnow" });
      expect(metadata.labels, `${kind}/${metadata.name}`).toMatchObject({
        "app.kubernetes.io/part-of": "winnow",
      });
    }
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
    expect(selectors.length).toBeGreaterThanOrEqual(6);
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
});

describe.skipIf(!hasKubectl)("processes of deploy/kubernetes", () => {
  const objects = hasKubectl
    ? [...render("overlays/prod-gpu"), ...render("overlays/prod-secure")]
    : [];
  const containers = objects.filter(isWorkload).flatMap(containersOf);
  const help = (role: string): string => winnow([role, "--help"]);

  test("get only flags that the command line knows", () => {
    for (const { name, args = [] } of containers) {
      const [role, ...rest] = args;
      if (name === "redis" || role === undefined) continue;
      const known = help(role);
      for (const flag of rest.filter((arg) => arg.startsWith("--"))) {
        expect(known, `${role} ${flag}`).toMatch(new RegExp(`${flag}\\b`));
      }
    }
  });

  test("get only WINNOW_ variables that the command line reads", () => {
    const settings = objects.find(({ metadata }) => metadata.name.startsWith("winnow-settings"));
    const shared = Object.keys(settings?.["data"] ?? {});
    const own = containers.flatMap(({ env = [] }) => env.map(({ name }) => name));
    // Lines are broken anywhere between words.
    const known = `${help("worker")}${help("router")}`.replaceAll(/\s+/g, " ");

    const names = [...shared, ...own].filter((name) => name.startsWith("WINNOW_"));

    expect(names.length).toBeGreaterThan(4);
    expect(names.filter((name) => !known.includes(`env: ${name})`))).toEqual([]);
  });
});

describe.skipIf(!hasKubectl)("components", () => {
  const worker = (kustomization: string): Container =>
    containersOf(find(render(kustomization), "StatefulSet", "winnow-shard"))[0]!;

  test("gpu: a worker asks for one whole GPU, with Vulkan, from the image that has it", () => {
    const { image, env, resources } = worker("overlays/prod-gpu");

    expect(image).toMatch(/^winnow-gpu:\d/);
    expect(resources.limits).toHaveProperty(["nvidia.com/gpu"], "1");
    expect(env).toEqual(
      expect.arrayContaining([
        { name: "WINNOW_ACCELERATOR", value: "gpu" },
        { name: "NVIDIA_DRIVER_CAPABILITIES", value: "compute,utility,graphics" },
        // The root file system is read-only; /tmp is the scratch volume.
        { name: "XDG_CACHE_HOME", value: "/tmp" },
      ]),
    );
    expect(worker("overlays/prod-cpu").image).toMatch(/^winnow:\d/);
  });

  test("autoscale-router: the autoscaler alone says how many routers there are", () => {
    const objects = render("overlays/prod-cpu");
    const scaler = find(objects, "HorizontalPodAutoscaler", "winnow-router");
    const target = at(scaler.spec, "scaleTargetRef") as { kind: string; name: string };

    const scaled = find(objects, target.kind, target.name);

    expect(scaled.spec).not.toHaveProperty("replicas");
    expect(containersOf(scaled)[0]!.resources.requests).toHaveProperty("cpu");
    expect(at(scaler.spec, "minReplicas")).toBe(2);
    expect(find(render("base"), "Deployment", "winnow-router").spec).toHaveProperty("replicas", 2);
  });

  test("cluster-secret: every process of ours reads the secrets, and where workers may be", () => {
    const objects = render("overlays/prod-cpu");
    const settings = objects.find(({ metadata }) => metadata.name.startsWith("winnow-settings"));
    const rules = parseAddressRules(String(at(settings?.["data"], "WINNOW_WORKER_ADDRESSES")));
    const worker = containersOf(find(objects, "StatefulSet", "winnow-shard"))[0]!;
    const advertised = worker.args![worker.args!.indexOf("--advertise") + 1]!;

    for (const object of objects.filter(isWorkload)) {
      const [container] = containersOf(object);
      if (container!.name === "redis") continue;
      const file = container!.env!.find(
        ({ name }) => name === "WINNOW_CLUSTER_SECRET_FILE",
      )!.value!;
      const mount = container!.volumeMounts!.find(({ mountPath }) => file.startsWith(mountPath))!;
      const volumes = at(object.spec, "template", "spec", "volumes") as Fields[];
      expect(volumes).toContainEqual({
        name: mount.name,
        secret: { secretName: "winnow-cluster-secret" },
      });
    }
    expect(rules.faultOf(advertised.replace("$(POD_NAME)", "winnow-shard-12"))).toBeUndefined();
    expect(rules.faultOf("winnow-redis:6379")).toBeDefined();
  });

  describe("tls", () => {
    const objects = render("overlays/prod-secure");
    const certificates = objects.filter(({ kind }) => kind === "Certificate");
    const workloads = ["Deployment/winnow-router", "StatefulSet/winnow-shard"].map((name) =>
      find(objects, ...(name.split("/") as [string, string])),
    );
    const variablesOf = (object: KubernetesObject): Map<string, string> =>
      new Map(containersOf(object)[0]!.env!.map(({ name, value = "" }) => [name, value]));

    test("every file that a process is told of lies in a Secret that is mounted there", () => {
      const issued = certificates.map(({ spec }) => spec["secretName"]);
      for (const object of [...workloads, find(objects, "StatefulSet", "winnow-redis")]) {
        const container = containersOf(object)[0]!;
        const told = [...(container.env ?? []).map(({ value = "" }) => value), ...container.args!];
        const files = told.filter((value) => /^\/etc\/(winnow|redis-tls)\//.test(value));
        const volumes = at(object.spec, "template", "spec", "volumes") as Fields[];
        for (const file of files) {
          const mount = container.volumeMounts!.find(
            ({ mountPath }) => path.dirname(file) === mountPath,
          );
          const secret = at(
            volumes.find(({ name }) => name === mount?.name),
            "secret",
            "secretName",
          );
          const known = [...issued, "winnow-api-keys", "winnow-cluster-secret"];
          expect(known).toContain(secret);
        }
        expect(files.length).toBeGreaterThan(2);
      }
    });

    test("members, and Redis, are believed by names that their certificates carry", () => {
      const namesIn = (secret: string): unknown =>
        certificates.find(({ spec }) => spec["secretName"] === secret)?.spec["dnsNames"];
      for (const object of workloads) {
        const variables = variablesOf(object);
        const redis = new URL(variables.get("WINNOW_REDIS")!);

        expect(namesIn("winnow-member-tls")).toContain(variables.get("WINNOW_CLUSTER_TLS_NAME"));
        expect(redis.protocol).toBe("rediss:");
        expect(namesIn("winnow-redis-tls")).toContain(redis.hostname);
      }
      for (const name of ["winnow-router", "winnow-shard"]) {
        const monitor = find(objects, "PodMonitor", name);
        const [endpoint] = monitor.spec["podMetricsEndpoints"] as Fields[];
        const secret = String(at(endpoint, "tlsConfig", "ca", "secret", "name"));
        expect(endpoint).toHaveProperty("scheme", "https");
        expect(namesIn(secret)).toContain(at(endpoint, "tlsConfig", "serverName"));
      }
    });

    test("probes speak as the ports do, none is a gRPC one", () => {
      const probes = ["startupProbe", "livenessProbe", "readinessProbe"] as const;
      const schemes = workloads.map((object) =>
        probes.map((probe) => {
          const container = containersOf(object)[0] as unknown as Fields;
          const { grpc, httpGet } = container[probe] as Fields;
          return grpc === undefined ? at(httpGet, "scheme") : "grpc";
        }),
      );

      expect(schemes).toEqual([
        ["HTTPS", "HTTPS", "HTTPS"],
        ["HTTPS", "HTTPS", "HTTPS"],
      ]);
    });

    test("nothing is missing for --require-security, and both take it", () => {
      for (const object of workloads) {
        const variables = variablesOf(object);

        expect(variables.get("WINNOW_REQUIRE_SECURITY")).toBe("true");
        expect(variables.get("WINNOW_API_KEYS")).toBeDefined();
        expect(variables.get("WINNOW_CLUSTER_TLS_CERT")).toBeDefined();
        expect(variables.get("WINNOW_TLS_CERT")).toBeDefined();
      }
    });
  });

  test("every role spreads over zones, and fewer of a partition's replicas may be evicted than there are", () => {
    const objects = render("base");
    const settings = objects.find(({ metadata }) => metadata.name.startsWith("winnow-settings"));
    const replication = Number(at(settings?.["data"], "WINNOW_REPLICATION"));
    const budget = find(objects, "PodDisruptionBudget", "winnow-shard");

    for (const [kind, name] of [
      ["Deployment", "winnow-router"],
      ["StatefulSet", "winnow-shard"],
    ] as const) {
      const workload = find(objects, kind, name);
      const spread = at(workload.spec, "template", "spec", "topologySpreadConstraints") as Fields[];
      expect(spread).toContainEqual(
        expect.objectContaining({
          topologyKey: "topology.kubernetes.io/zone",
          labelSelector: { matchLabels: expect.objectContaining({}) as unknown },
        }),
      );
    }
    expect(budget.spec["maxUnavailable"]).toBeLessThan(replication);
  });

  test("models-s3: no claim, no volume; the worker reads a URL, with a ServiceAccount of its own", () => {
    const objects = render("overlays/prod-cloud");
    const workers = find(objects, "StatefulSet", "winnow-shard");
    const { env, volumeMounts } = worker("overlays/prod-cloud");

    expect(objects.map(({ kind }) => kind)).not.toContain("PersistentVolumeClaim");
    expect(JSON.stringify(workers)).not.toContain("winnow-models");
    expect(volumeMounts!.map(({ mountPath }) => mountPath)).not.toContain("/models");
    expect(env).toContainEqual({ name: "WINNOW_MODELS", value: "s3://models/winnow" });
    const account = at(workers.spec, "template", "spec", "serviceAccountName") as string;
    expect(find(objects, "ServiceAccount", account)).toBeDefined();
  });

  test("models-s3: the cache's limit is less than that of its volume, which is mounted where it is", () => {
    const workers = find(render("overlays/prod-cloud"), "StatefulSet", "winnow-shard");
    const { env, volumeMounts } = worker("overlays/prod-cloud");
    const settingOf = (name: string): unknown => env!.find((entry) => entry.name === name)?.value;
    const directory = settingOf("WINNOW_MODEL_CACHE_DIR");
    const mount = volumeMounts!.find(({ mountPath }) => mountPath === directory);
    const volumes = at(workers.spec, "template", "spec", "volumes") as Fields[];
    const volume = volumes.find(({ name }) => name === mount?.name);
    const gib = Number(/^(\d+)Gi$/.exec(String(at(volume, "emptyDir", "sizeLimit")))?.[1]);

    expect(gib).toBeGreaterThan(0);
    const bytes = Number(settingOf("WINNOW_MODEL_CACHE_BYTES"));
    expect(bytes).toBeLessThanOrEqual(0.9 * gib * 2 ** 30);
  });

  test("redis-external: no Redis is left, and every process of ours takes the URL from the Secret", () => {
    const objects = render("overlays/prod-cloud");

    expect(objects.filter(({ metadata }) => metadata.name === "winnow-redis")).toEqual([]);
    for (const object of objects.filter(isWorkload)) {
      expect(containersOf(object)[0]!.env).toContainEqual({
        name: "WINNOW_REDIS",
        valueFrom: { secretKeyRef: { name: "winnow-redis", key: "url" } },
      });
    }
  });

  test("autoscale-worker: KEDA alone says how many workers there are, by a metric that they show", () => {
    const objects = render("overlays/prod-cloud");
    const scaled = find(objects, "ScaledObject", "winnow-shard");
    const target = at(scaled.spec, "scaleTargetRef") as { kind: string; name: string };
    const [trigger] = scaled.spec["triggers"] as Fields[];

    expect(find(objects, target.kind, target.name).spec).not.toHaveProperty("replicas");
    const [metric] = /winnow_\w+/.exec(String(at(trigger, "metadata", "query")))!;
    expect(readTracked("docs/metrics.md")).toContain(`\`${metric}\``);
  });

  test("ingress: the host's path leads to a port of a Service that there is", () => {
    const objects = render("overlays/prod-cloud");
    const [rule] = find(objects, "Ingress", "winnow").spec["rules"] as Fields[];
    const [entry] = at(rule, "http", "paths") as Fields[];
    const service = at(entry, "backend", "service") as { name: string; port: { name: string } };

    const ports = find(objects, "Service", service.name).spec["ports"];

    expect(entry).toMatchObject({ path: "/v1/models", pathType: "Prefix" });
    expect(ports).toContainEqual(expect.objectContaining({ name: service.port.name }));
  });

  test("ingress: asks routers over TLS where they speak nothing else, and only there", () => {
    const annotationsOf = (overlay: string): unknown =>
      at(find(render(overlay), "Ingress", "winnow"), "metadata", "annotations");

    expect(annotationsOf("overlays/prod-cloud")).toBeUndefined();
    expect(annotationsOf("overlays/prod-cloud-secure")).toEqual({
      "nginx.ingress.kubernetes.io/backend-protocol": "HTTPS",
      "alb.ingress.kubernetes.io/backend-protocol": "HTTPS",
    });
  });

  test("dev: one router, two workers", () => {
    const objects = render("overlays/dev");

    expect(find(objects, "Deployment", "winnow-router").spec).toHaveProperty("replicas", 1);
    expect(find(objects, "StatefulSet", "winnow-shard").spec).toHaveProperty("replicas", 2);
    expect(find(objects, "StatefulSet", "winnow-redis").spec).toHaveProperty("replicas", 1);
  });
});

function winnow(args: readonly string[]): string {
  return execFileSync(process.execPath, ["packages/winnow/bin/winnow.js", ...args], {
    cwd: root,
    encoding: "utf8",
  });
}
