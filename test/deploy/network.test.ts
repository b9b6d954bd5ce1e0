// Who reaches whom under the NetworkPolicies: every caller against every port of every pod, decided as
// Kubernetes decides it (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
// Policies add up; a pod that any policy selects is reached only as one of them allows.

import { describe, expect, test } from "vitest";
import {
  type KubernetesObject,
  at,
  containersOf,
  fits,
  isWorkload,
  objectsOf,
  podLabels,
} from "./manifests.ts";
import { readTracked, trackedFiles } from "../tracked-files.ts";

type Labels = Readonly<Record<string, string>>;
interface Selector {
  readonly matchLabels?: Labels;
}
/** One that sends: the labels of its pod, and those of its namespace where it is another one. */
interface Caller {
  readonly pod: Labels;
  readonly namespace?: Labels;
}
interface Peer {
  readonly podSelector?: Selector;
  readonly namespaceSelector?: Selector;
}
interface Rule {
  readonly from?: readonly Peer[];
  readonly ports?: readonly { readonly port: number; readonly protocol: string }[];
}

const files = trackedFiles.filter((file) => /^deploy\/kubernetes\/base\/.*\.yaml$/.test(file));
const objects = files.flatMap((file) => objectsOf(readTracked(file)));
const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
const workloads = objects.filter(isWorkload);

/** A peer of pods alone means this namespace. */
function isMeant(caller: Caller, peer: Peer): boolean {
  const isOfNamespace =
    peer.namespaceSelector === undefined
      ? caller.namespace === undefined
      : fits(caller.namespace ?? {}, peer.namespaceSelector);
  return isOfNamespace && fits(caller.pod, peer.podSelector ?? {});
}

function isAllowed(caller: Caller, workload: KubernetesObject, port: number): boolean {
  const applying = policies.filter(({ spec }) =>
    fits(podLabels(workload), spec["podSelector"] as Selector),
  );
  const rules = applying.flatMap(({ spec }) => (spec["ingress"] ?? []) as Rule[]);
  const admits = ({ from, ports }: Rule): boolean =>
    (from === undefined || from.some((peer) => isMeant(caller, peer))) &&
    (ports === undefined || ports.some((each) => each.port === port && each.protocol === "TCP"));
  return applying.length === 0 || rules.some(admits);
}

const roleOf = (workload: KubernetesObject): string =>
  podLabels(workload)["app.kubernetes.io/component"] ?? "?";

const workloadOf = (role: string): KubernetesObject => {
  const found = workloads.find((each) => roleOf(each) === role);
  if (found === undefined) throw new Error(`no workload is a ${role}`);
  return found;
};

/** `role:port` of all that the caller reaches, of all ports that any pod listens on. */
function reached(caller: Caller): string[] {
  const ports = workloads.flatMap((workload) =>
    containersOf(workload).flatMap((container) =>
      container.ports.map((port) => port.containerPort),
    ),
  );
  return workloads
    .flatMap((workload) =>
      ports
        .filter((port) => isAllowed(caller, workload, port))
        .map((port) => `${roleOf(workload)}:${port}`),
    )
    .toSorted();
}

describe("NetworkPolicies of the base", () => {
  const open = ["router:8500", "router:8501"];
  const pod = (role: string): Caller => ({ pod: podLabels(workloadOf(role)) });

  test("let a router reach workers and Redis", () => {
    expect(reached(pod("router"))).toEqual(["redis:6379", ...open, "worker:7600"]);
  });

  test("let a worker reach Redis and the other workers", () => {
    expect(reached(pod("worker"))).toEqual(["redis:6379", ...open, "worker:7600"]);
  });

  test("let Redis reach what everybody may", () => {
    expect(reached(pod("redis"))).toEqual(open);
  });

  test("let callers reach routers alone, from this and other namespaces", () => {
    const labels = { "app.kubernetes.io/component": "router" };

    expect(reached({ pod: { app: "shop" } })).toEqual(open);
    expect(reached({ pod: {}, namespace: { team: "shop" } })).toEqual(open);
    expect(reached({ pod: labels, namespace: { team: "shop" } })).toEqual(open);
  });

  test("let a namespace labelled for monitoring read metrics of both roles", () => {
    const namespace = { "winnow-monitoring": "allowed" };

    expect(reached({ pod: {}, namespace })).toEqual([...open, "worker:9100"]);
  });

  test("keep a router's metrics readable where callers are narrowed", () => {
    const narrowing = policies.find(({ metadata }) => metadata.name === "winnow-router");
    const [rule] = (narrowing?.spec["ingress"] ?? []) as { from?: unknown }[];
    rule!.from = [{ namespaceSelector: { matchLabels: { team: "shop" } } }];

    const monitoring = reached({ pod: {}, namespace: { "winnow-monitoring": "allowed" } });
    const shop = reached({ pod: {}, namespace: { team: "shop" } });
    const stranger = reached({ pod: { app: "shop" } });
    delete rule!.from;

    expect(monitoring).toEqual(["router:8501", "worker:9100"]);
    expect(shop).toEqual(open);
    expect(stranger).toEqual([]);
  });

  test("deny by default what no policy names: a pod of any other kind", () => {
    const deny = policies.find(({ metadata }) => metadata.name === "winnow-default-deny");

    expect(deny?.spec).toEqual({ podSelector: {}, policyTypes: ["Ingress"] });
  });

  test("limit what comes in and nothing else, for pods that exist", () => {
    for (const { spec, metadata } of policies) {
      expect(spec["policyTypes"], `of ${metadata.name}`).toEqual(["Ingress"]);
      const selected = workloads.filter((workload) =>
        fits(podLabels(workload), spec["podSelector"] as Selector),
      );
      expect(selected.length, `of ${metadata.name}`).toBeGreaterThan(0);
    }
  });

  test("open the port of every Service, and every port that a container names is in a policy", () => {
    const opened = policies.flatMap(({ spec }) =>
      ((spec["ingress"] ?? []) as Rule[]).flatMap(({ ports = [] }) =>
        ports.map(({ port }) => port),
      ),
    );
    const services = objects
      .filter(({ kind }) => kind === "Service")
      .flatMap(({ spec }) => at(spec, "ports") as { port: number }[]);
    const listening = workloads.flatMap((workload) =>
      containersOf(workload).flatMap(({ ports }) => ports.map((port) => port.containerPort)),
    );

    expect(new Set(services.map(({ port }) => port))).toEqual(new Set(opened));
    expect(new Set(listening)).toEqual(new Set(opened));
  });
});
