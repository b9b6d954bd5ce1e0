// The manifests on a real API server: what it says to them, what it makes of them, and what its controllers and its
// scheduler do with the pods. `npm run test:kubernetes` runs this; docs/kubernetes.md tells what came out, and of which
// release. Skipped where there is no kube-apiserver (control-plane.ts says where it is looked for).
//
// The kinds of Prometheus' operator, KEDA, cert-manager and KServe need CustomResourceDefinitions. KUBERNETES_CRDS names
// a folder with the real ones; without it, each kind is defined as an object with any fields.

import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { type CommandResult, ControlPlane, findControlPlane, versionOf } from "./control-plane.ts";
import { Kubelets, type Pod, isReady, zonesOfNodes } from "./kubelets.ts";
import {
  type Fields,
  type KubernetesObject,
  at,
  find,
  isForOperator,
  render,
  repositoryRoot,
} from "./manifests.ts";
import { RENDER_REQUESTS, renderedText } from "./render-requests.ts";
import { readTracked } from "../tracked-files.ts";

const programs = findControlPlane();
/** Of an API server alone; where there is none, all is skipped: tests of a block skipped twice would not be counted. */
const lacksControllers = programs !== undefined && programs.controllers === undefined;
const version = programs === undefined ? "" : versionOf(programs);

const OVERLAYS = [
  "base",
  "overlays/dev",
  "overlays/prod-cpu",
  "overlays/prod-gpu",
  "overlays/prod-secure",
  "overlays/prod-cloud",
  "overlays/prod-cloud-secure",
] as const;

/** The Secrets that comments of an overlay and its components leave to people; those of certificates are issued. */
const SECRETS: Readonly<Record<(typeof OVERLAYS)[number], readonly (readonly [string, string])[]>> =
  (() => {
    const cluster = ["winnow-cluster-secret", "secrets"] as const;
    const keys = ["winnow-api-keys", "keys"] as const;
    const redis = ["winnow-redis", "url"] as const;
    return {
      base: [],
      "overlays/dev": [],
      "overlays/prod-cpu": [cluster],
      "overlays/prod-gpu": [cluster],
      "overlays/prod-secure": [cluster, keys],
      "overlays/prod-cloud": [cluster, redis],
      "overlays/prod-cloud-secure": [cluster, redis, keys],
    };
  })();

const NAMESPACE = "winnow";
const ZONES = ["a", "b", "c"] as const;
const LOOK_MS = 200;
/** When a state that is waited for is taken to hang; on an idle machine the longest takes 40 s. */
const WAIT_MS = 240_000;

const folderOf = (overlay: string): string =>
  path.join(repositoryRoot, "deploy/kubernetes", overlay);

describe.skipIf(programs === undefined)(
  `deploy/kubernetes, applied to kube-apiserver ${version}`,
  () => {
    let plane: ControlPlane;
    let kubelets: Kubelets;

    beforeAll(async () => {
      plane = await ControlPlane.start(programs!);
      await defineOperatorKinds(plane);
      kubelets = await Kubelets.start(plane, zonesOfNodes(ZONES, 2));
    }, WAIT_MS);

    afterAll(async () => {
      await kubelets?.stop();
      await plane?.stop();
    });

    /** kubectl's result, which must be a good one without a warning. */
    async function expectSuccess(args: readonly string[], input?: string): Promise<CommandResult> {
      const result = await plane.kubectl(args, input);
      expect(result, `kubectl ${args.join(" ")}`).toMatchObject({ code: 0, stderr: "" });
      return result;
    }

    /** Applies objects strictly: unknown or repeated fields are errors. */
    const expectApplied = (text: string, ...flags: readonly string[]): Promise<CommandResult> =>
      expectSuccess(["apply", "--validate=strict", "-f", "-", ...flags], text);

    const read = async (kind: string, name: string, namespace = NAMESPACE): Promise<Fields> => {
      const { stdout } = await plane.kubectl(["-n", namespace, "get", kind, name, "-o", "json"]);
      return stdout === "" ? {} : (JSON.parse(stdout) as Fields);
    };

    async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
      for (let waited = 0; !(await isSo()); waited += LOOK_MS) {
        if (waited > WAIT_MS) {
          const seen = await plane.kubectl(["get", "pods,pvc,events", "-A", "-o", "wide"]);
          throw new Error(`${what}: not so\n${seen.stdout}\n${plane.logs()}`);
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    }

    const readyPods = async (component: string, namespace = NAMESPACE): Promise<Pod[]> =>
      (await kubelets.pods(namespace, component)).filter(isReady);

    async function untilReady(workers: number, routers: number, namespace = NAMESPACE) {
      await until(`${workers} workers and ${routers} routers are ready`, async () => {
        const [some, others] = [
          await kubelets.pods(namespace, "worker"),
          await kubelets.pods(namespace, "router"),
        ];
        return (
          some.length === workers &&
          others.length === routers &&
          [...some, ...others].every(isReady)
        );
      });
    }

    async function makeSecrets(overlay: (typeof OVERLAYS)[number]): Promise<void> {
      for (const [name, key] of SECRETS[overlay]) {
        await expectSuccess([
          "-n",
          NAMESPACE,
          "create",
          "secret",
          "generic",
          name,
          `--from-literal=${key}=x`,
        ]);
      }
    }

    /** What cert-manager would do. */
    async function issueCertificates(objects: readonly KubernetesObject[]): Promise<void> {
      for (const { kind, spec } of objects) {
        if (kind !== "Certificate") continue;
        const files = ["tls.crt", "tls.key", "ca.crt"].map((file) => `--from-literal=${file}=x`);
        const name = String(spec["secretName"]);
        await expectSuccess(["-n", NAMESPACE, "create", "secret", "generic", name, ...files]);
      }
    }

    let volumes = 0;
    /** A volume for the next claim: one that was used stays bound to the claim that is gone. */
    async function offerVolume(): Promise<void> {
      volumes += 1;
      await expectSuccess(["create", "-f", "-"], JSON.stringify(volumeNamed(`models-${volumes}`)));
    }

    /** As people must, too, before they apply an overlay that has none: an apply leaves them there. */
    async function removeAutoscalers(): Promise<void> {
      const scalers = ["hpa/winnow-router", "scaledobject/winnow-shard"];
      await plane.kubectl(["-n", NAMESPACE, "delete", "--ignore-not-found", ...scalers]);
    }

    async function remove(overlay: string): Promise<void> {
      await expectSuccess(["delete", "-k", folderOf(overlay), "--wait=true", "--ignore-not-found"]);
      await until("the namespace is gone", async () => {
        return (await plane.request("GET", `/api/v1/namespaces/${NAMESPACE}`)).status === 404;
      });
    }

    describe("takes", () => {
      test(
        "every overlay after every other, strictly and without a warning; then nothing differs",
        async () => {
          for (const overlay of tourOf(OVERLAYS)) {
            await removeAutoscalers();
            const text = objectsText(render(overlay));

            await expectApplied(text);

            const difference = await plane.kubectl(["diff", "-f", "-"], text);
            expect(difference, `after ${overlay}`).toEqual({ code: 0, stdout: "", stderr: "" });
          }
        },
        3 * WAIT_MS,
      );

      test.each(OVERLAYS)("%s twice, and changes nothing the second time", async (overlay) => {
        await removeAutoscalers();
        await expectSuccess(["apply", "--validate=strict", "-k", folderOf(overlay)]);

        const { stdout } = await expectSuccess([
          "apply",
          "--validate=strict",
          "-k",
          folderOf(overlay),
        ]);

        const lines = stdout.trim().split("\n");
        const changed = lines.filter((line) => !line.endsWith(" unchanged"));
        const difference = await plane.kubectl(["diff", "-k", folderOf(overlay)]);
        // kubectl sends a budget's selector whole each time, and the server finds nothing new in it.
        expect(changed.filter((line) => !line.startsWith("poddisruptionbudget"))).toEqual([]);
        expect(difference).toEqual({ code: 0, stdout: "", stderr: "" });
        expect(lines.length).toBe(render(overlay).length);
      });

      test.each(OVERLAYS)(
        "%s server-side, after the same on the client's side, without a conflict",
        async (overlay) => {
          await removeAutoscalers();
          await expectSuccess(["apply", "-k", folderOf(overlay)]);
          const flags = ["apply", "--server-side", "--validate=strict", "-k", folderOf(overlay)];

          const { code, stdout, stderr } = await plane.kubectl(flags);
          const again = await plane.kubectl(["diff", "--server-side", "-k", folderOf(overlay)]);

          expect({ code, stderr, objects: stdout.trim().split("\n").length }).toEqual({
            code: 0,
            stderr: "",
            objects: render(overlay).length,
          });
          expect(again).toMatchObject({ code: 0, stdout: "" });
        },
      );

      test.each(Object.entries(RENDER_REQUESTS))(
        "what `winnow k8s render` prints for %s",
        async (what, flags) => {
          const namespace = what.replaceAll(" ", "-").toLowerCase();
          const others = flags.filter((_, index) => !isNamespace(flags, index));
          const text = renderedText(["--namespace", namespace, ...others]);

          await expectApplied(text);

          const difference = await plane.kubectl(["diff", "-f", "-"], text);
          expect(difference).toEqual({ code: 0, stdout: "", stderr: "" });
        },
      );

      test("the runtime for KServe, and the InferenceService that the documentation shows", async () => {
        await expectSuccess(["apply", "--validate=strict", "-k", folderOf("kserve")]);

        await expectApplied(documentedService(), "-n", "default");

        await expectSuccess(["delete", "-k", folderOf("kserve")]);
      });

      test("from somebody who may edit the namespace and nothing else, all of its own kinds", async () => {
        await expectSuccess(["apply", "-f", path.join(folderOf("base"), "namespace.yaml")]);
        const own = render("overlays/prod-cloud").filter(
          (object) => !isForOperator(object) && object.kind !== "Namespace",
        );
        await expectSuccess([
          "-n",
          NAMESPACE,
          "create",
          "rolebinding",
          "deployer",
          "--clusterrole=edit",
          "--user=deployer",
        ]);

        await expectApplied(objectsText(own), "--as=deployer");
      });
    });

    describe.skipIf(lacksControllers)("with controllers and a scheduler", () => {
      beforeAll(async () => {
        await plane.kubectl(["delete", "namespace", NAMESPACE, "shop", "--ignore-not-found"]);
        await until("the namespace is gone", async () => {
          return (await plane.request("GET", `/api/v1/namespaces/${NAMESPACE}`)).status === 404;
        });
      }, WAIT_MS);

      test.each(OVERLAYS)(
        "%s comes up with the Secrets that it names, over all zones, and leaves nothing",
        async (overlay) => {
          const objects = render(overlay);
          const workers = (find(objects, "StatefulSet", "winnow-shard").spec["replicas"] ??
            1) as number;
          const isScaled = objects.some(({ kind }) => kind === "HorizontalPodAutoscaler");
          const routers = isScaled ? 2 : overlay === "overlays/dev" ? 1 : 2;
          await offerVolume();
          await expectSuccess(["apply", "--validate=strict", "-k", folderOf(overlay)]);
          await until("pods are bound to nodes", async () => {
            const pods = await kubelets.pods(NAMESPACE, "worker");
            return pods.length === workers && pods.every(({ spec }) => spec.nodeName !== undefined);
          });
          const early = await readyPods("worker");
          const isEarly = early.length > 0 && SECRETS[overlay].length > 0;

          await makeSecrets(overlay);
          await issueCertificates(objects);

          await untilReady(workers, routers);
          expect(isEarly).toBe(false);
          for (const [component, count] of [
            ["worker", workers],
            ["router", routers],
          ] as const) {
            const pods = await kubelets.pods(NAMESPACE, component);
            expect(new Set(pods.map((pod) => kubelets.zoneOf(pod))).size).toBe(Math.min(count, 3));
          }
          await remove(overlay);
        },
        2 * WAIT_MS,
      );

      test("autoscalers take over the numbers that are there, once those of the manifests are forgotten", async () => {
        const numbers = async (): Promise<unknown[]> => [
          at(await read("statefulset", "winnow-shard"), "spec", "replicas"),
          at(await read("deployment", "winnow-router"), "spec", "replicas"),
        ];
        await offerVolume();
        await expectSuccess(["apply", "-k", folderOf("base")]);
        await expectSuccess(["-n", NAMESPACE, "scale", "statefulset/winnow-shard", "--replicas=5"]);
        await expectSuccess(["-n", NAMESPACE, "scale", "deployment/winnow-router", "--replicas=4"]);

        const { code, stderr } = await plane.bash(forgettingNumbers());
        await expectSuccess(["apply", "-k", folderOf("overlays/prod-cloud")]);

        expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
        expect(await numbers()).toEqual([5, 4]);
        await until("the autoscaler reaches the routers", async () => {
          const scaler = await read("hpa", "winnow-router");
          const conditions = (at(scaler, "status", "conditions") ?? []) as Fields[];
          return conditions.some(({ type, status }) => type === "AbleToScale" && status === "True");
        });
        await expectSuccess(["delete", "-k", folderOf("overlays/prod-cloud")]);
      });

      describe("a cluster of the base", () => {
        beforeAll(async () => {
          await offerVolume();
          await expectSuccess(["apply", "-k", folderOf("base")]);
          await untilReady(3, 2);
        }, WAIT_MS);

        afterAll(() => remove("base"), WAIT_MS);

        const evict = (name: string) =>
          plane.request("POST", `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`, {
            apiVersion: "policy/v1",
            kind: "Eviction",
            metadata: { name, namespace: NAMESPACE },
          });

        test("scales to six workers, two in each zone and one on each node, and back to the first three", async () => {
          await expectSuccess([
            "-n",
            NAMESPACE,
            "scale",
            "statefulset/winnow-shard",
            "--replicas=6",
          ]);
          await untilReady(6, 2);
          const six = await kubelets.pods(NAMESPACE, "worker");

          await expectSuccess([
            "-n",
            NAMESPACE,
            "scale",
            "statefulset/winnow-shard",
            "--replicas=3",
          ]);
          await untilReady(3, 2);
          const three = await kubelets.pods(NAMESPACE, "worker");

          expect(countsOf(six.map((pod) => kubelets.zoneOf(pod)!))).toEqual({ a: 2, b: 2, c: 2 });
          expect(new Set(six.map(({ spec }) => spec.nodeName)).size).toBe(6);
          expect(three.map(({ metadata }) => metadata.name).toSorted()).toEqual([
            "winnow-shard-0",
            "winnow-shard-1",
            "winnow-shard-2",
          ]);
        });

        test("gives up one worker at a time to those who empty nodes", async () => {
          await until("the budget has seen all workers", async () => {
            const budget = await read("poddisruptionbudget", "winnow-shard");
            return at(budget, "status", "disruptionsAllowed") === 1;
          });
          kubelets.held.add("winnow-shard-0");

          const first = await evict("winnow-shard-0");
          const second = await evict("winnow-shard-1");
          kubelets.held.clear();
          await untilReady(3, 2);

          expect(first.status).toBe(201);
          expect(second.status).toBe(429);
          expect(at(second.body, "details", "causes")).toContainEqual(
            expect.objectContaining({ reason: "DisruptionBudget" }),
          );
        });

        test("replaces one worker at a time when settings change, and never has less than two routers", async () => {
          let fewestWorkers = 3;
          let fewestRouters = 2;
          const before = await kubelets.pods(NAMESPACE, "worker");

          await expectSuccess([
            "-n",
            NAMESPACE,
            "rollout",
            "restart",
            "statefulset/winnow-shard",
            "deployment/winnow-router",
          ]);

          await until("all workers are others", async () => {
            const workers = await kubelets.pods(NAMESPACE, "worker");
            fewestWorkers = Math.min(fewestWorkers, workers.filter(isReady).length);
            fewestRouters = Math.min(fewestRouters, (await readyPods("router")).length);
            const old = new Set(before.map(({ metadata }) => at(metadata, "uid")));
            return (
              workers.length === 3 &&
              workers.every((pod) => isReady(pod) && !old.has(at(pod.metadata, "uid")))
            );
          });
          await untilReady(3, 2);
          const routers = await kubelets.pods(NAMESPACE, "router");
          expect({ fewestWorkers, fewestRouters }).toEqual({ fewestWorkers: 2, fewestRouters: 2 });
          expect(new Set(routers.map((pod) => kubelets.zoneOf(pod))).size).toBe(2);
        });
      });
    });
  },
);

function volumeNamed(name: string): Fields {
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      capacity: { storage: "100Gi" },
      accessModes: ["ReadOnlyMany"],
      // For this claim alone: claims of other namespaces wait too, and would take it.
      claimRef: {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        namespace: NAMESPACE,
        name: "winnow-models",
      },
      nfs: { server: "127.0.0.1", path: "/models", readOnly: true },
    },
  };
}

/** As one List, in JSON: nothing in it is for two versions of YAML to read differently. */
const objectsText = (items: readonly Fields[]): string =>
  JSON.stringify({ apiVersion: "v1", kind: "List", items });

/** A walk that goes from each name to each other one. */
function tourOf(names: readonly string[]): string[] {
  return [
    ...names.flatMap((name, index) => names.slice(index + 1).flatMap((other) => [name, other])),
    names[0]!,
  ].filter((name, index, all) => name !== all[index - 1]);
}

function countsOf(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

const isNamespace = (flags: readonly string[], index: number): boolean =>
  flags[index] === "--namespace" || flags[index - 1] === "--namespace";

/** The commands of docs/kubernetes.md with which kubectl forgets the numbers that it once applied. */
function forgettingNumbers(): string {
  const [, text] = /```\n( *for workload in[^`]*)```/.exec(readTracked("docs/kubernetes.md"))!;
  return text!;
}

/** The InferenceService of docs/kubernetes.md. */
function documentedService(): string {
  const [, text] = /```yaml\n([^`]*kind: InferenceService[^`]*)```/.exec(
    readTracked("docs/kubernetes.md"),
  )!;
  return text!;
}

const OPERATOR_KINDS = [
  ["monitoring.coreos.com/v1", "PodMonitor", "Namespaced"],
  ["monitoring.coreos.com/v1", "PrometheusRule", "Namespaced"],
  ["keda.sh/v1alpha1", "ScaledObject", "Namespaced"],
  ["cert-manager.io/v1", "Issuer", "Namespaced"],
  ["cert-manager.io/v1", "Certificate", "Namespaced"],
  ["serving.kserve.io/v1alpha1", "ClusterServingRuntime", "Cluster"],
  ["serving.kserve.io/v1beta1", "InferenceService", "Namespaced"],
] as const;

async function defineOperatorKinds(plane: ControlPlane): Promise<void> {
  const folder = process.env["KUBERNETES_CRDS"];
  const texts =
    folder === undefined
      ? OPERATOR_KINDS.map(definitionText)
      : readdirSync(folder).map((name) => readFileSync(path.join(folder, name), "utf8"));
  for (const text of texts) {
    const { code, stderr } = await plane.kubectl(["create", "-f", "-"], text);
    if (code !== 0) throw new Error(`a CustomResourceDefinition is refused: ${stderr}`);
  }
  for (let waited = 0; ; waited += LOOK_MS) {
    const { body } = await plane.request("GET", DEFINITIONS);
    const items = at(body, "items") as Fields[];
    if (items.length === texts.length && items.every(isEstablished)) return;
    if (waited > WAIT_MS) throw new Error("CustomResourceDefinitions are not established");
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

function isEstablished(definition: Fields): boolean {
  const conditions = (at(definition, "status", "conditions") ?? []) as Fields[];
  return conditions.some(({ type, status }) => type === "Established" && status === "True");
}

function definitionText([version, kind, scope]: (typeof OPERATOR_KINDS)[number]): string {
  const [group, name] = version.split("/") as [string, string];
  const plural = `${kind.toLowerCase()}s`;
  return stringify({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: { kind, plural, singular: kind.toLowerCase() },
      versions: [
        {
          name,
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
          },
        },
      ],
    },
  });
}
