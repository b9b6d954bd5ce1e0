// What kubelets do, without machines: nodes in zones, whose pods run and are ready as soon as the Secrets, ConfigMaps
// and keys that they name are there, and are gone as soon as they are to go. No container is started.

import type { ControlPlane } from "./control-plane.ts";
import { type Fields, at } from "./manifests.ts";

const LOOK_MS = 200;
const ZONE = "topology.kubernetes.io/zone";

/** A pod, as far as is looked at here. */
export interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
  readonly spec: Fields & { readonly nodeName?: string };
  readonly status: { readonly phase: string; readonly conditions?: readonly Fields[] };
}

/** Zones by node: `perZone` nodes in each, each with room for some workers. */
export function zonesOfNodes(zones: readonly string[], perZone: number): Map<string, string> {
  const names = zones.flatMap((zone) =>
    Array.from({ length: perZone }, (_, index) => [`${zone}-${index}`, zone] as const),
  );
  return new Map(names);
}

/** Kubelets of some nodes. */
export class Kubelets {
  readonly #plane: ControlPlane;
  readonly #zones: ReadonlyMap<string, string>;
  readonly #loop: Promise<void>;
  #isStopped = false;
  /** Pods that stay unready, by name. */
  readonly held = new Set<string>();

  private constructor(plane: ControlPlane, zones: ReadonlyMap<string, string>) {
    this.#plane = plane;
    this.#zones = zones;
    this.#loop = this.#run();
  }

  /** Registers the nodes; from then on their pods run. */
  static async start(plane: ControlPlane, zones: ReadonlyMap<string, string>): Promise<Kubelets> {
    for (const [node, zone] of zones) {
      const { status } = await plane.request("POST", "/api/v1/nodes", nodeOf(node, zone));
      if (status !== 201) throw new Error(`node ${node}: HTTP ${status}`);
      // A node is born as not ready, by admission; the controller that would take this away watches heartbeats.
      await plane.request("PATCH", `/api/v1/nodes/${node}`, { spec: { taints: null } });
    }
    return new Kubelets(plane, zones);
  }

  /** The zone that a pod was put into; `undefined`: none yet. */
  zoneOf(pod: Pod): string | undefined {
    return this.#zones.get(pod.spec.nodeName ?? "");
  }

  /** Pods of a namespace that are not about to go. */
  async pods(namespace: string, component: string): Promise<Pod[]> {
    const selector = encodeURIComponent(`app.kubernetes.io/component=${component}`);
    const url = `/api/v1/namespaces/${namespace}/pods?labelSelector=${selector}`;
    const { body } = await this.#plane.request("GET", url);
    return ((at(body, "items") ?? []) as Pod[]).filter(
      ({ metadata }) => metadata.deletionTimestamp === undefined,
    );
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#loop;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.#look().catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  async #look(): Promise<void> {
    const { body } = await this.#plane.request("GET", "/api/v1/pods");
    for (const pod of (at(body, "items") ?? []) as Pod[]) {
      const { name, namespace, deletionTimestamp } = pod.metadata;
      const url = `/api/v1/namespaces/${namespace}/pods/${name}`;
      if (deletionTimestamp !== undefined) {
        await this.#plane.request("DELETE", `${url}?gracePeriodSeconds=0`);
        continue;
      }
      if (pod.spec.nodeName === undefined || this.held.has(name) || isReady(pod)) continue;
      if (!(await this.#hasWhatItNames(pod))) continue;
      await this.#plane.request("PATCH", `${url}/status`, runningStatus(pod));
    }
  }

  async #hasWhatItNames(pod: Pod): Promise<boolean> {
    for (const { kind, name, key } of namedBy(pod)) {
      const url = `/api/v1/namespaces/${pod.metadata.namespace}/${kind}/${name}`;
      const { status, body } = await this.#plane.request("GET", url);
      if (status !== 200) return false;
      if (key !== undefined && at(body, "data", key) === undefined) return false;
    }
    return true;
  }
}

function nodeOf(name: string, zone: string): Fields {
  const room = { cpu: "32", memory: "128Gi", pods: "110", "nvidia.com/gpu": "8" };
  const labels = { [ZONE]: zone, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels },
    status: {
      capacity: room,
      allocatable: room,
      conditions: [{ type: "Ready", status: "True", reason: "KubeletReady" }],
    },
  };
}

/** Whether a pod says that it is ready. */
export function isReady(pod: Pod): boolean {
  return (pod.status.conditions ?? []).some(
    ({ type, status }) => type === "Ready" && status === "True",
  );
}

function runningStatus(pod: Pod): Fields {
  const now = new Date().toISOString().replace(/\.\d+/, "");
  const containers = pod.spec["containers"] as { name: string; image: string }[];
  return {
    status: {
      phase: "Running",
      startTime: now,
      conditions: ["Initialized", "ContainersReady", "Ready"].map((type) => ({
        type,
        status: "True",
        lastTransitionTime: now,
      })),
      containerStatuses: containers.map(({ name, image }) => ({
        name,
        image,
        imageID: image,
        ready: true,
        started: true,
        restartCount: 0,
        state: { running: { startedAt: now } },
      })),
    },
  };
}

interface Named {
  readonly kind: "secrets" | "configmaps";
  readonly name: string;
  readonly key: string | undefined;
}

/** What a kubelet waits for before it starts a pod's containers. */
function namedBy(pod: Pod): Named[] {
  const volumes = (pod.spec["volumes"] ?? []) as Fields[];
  const containers = pod.spec["containers"] as Fields[];
  const variables = containers.flatMap((container) => (container["env"] ?? []) as Fields[]);
  const sources = containers.flatMap((container) => (container["envFrom"] ?? []) as Fields[]);
  const references: (readonly [Named["kind"], unknown])[] = [
    ...volumes.map((volume) => ["secrets", volume["secret"]] as const),
    ...volumes.map((volume) => ["configmaps", volume["configMap"]] as const),
    ...sources.map((source) => ["configmaps", source["configMapRef"]] as const),
    ...sources.map((source) => ["secrets", source["secretRef"]] as const),
    ...variables.map((variable) => ["secrets", at(variable, "valueFrom", "secretKeyRef")] as const),
    ...variables.map(
      (variable) => ["configmaps", at(variable, "valueFrom", "configMapKeyRef")] as const,
    ),
  ];
  return references.flatMap(([kind, reference]) => {
    if (reference === undefined || at(reference, "optional") === true) return [];
    const name = String(at(reference, "name") ?? at(reference, "secretName"));
    const key = at(reference, "key") as string | undefined;
    return [{ kind, name, key }];
  });
}
