// Whether a cluster is whole: each router trusts every worker, every partition has all its replicas,
// and the version that should answer does, on every router. Asked of the routers' own metrics, as an
// operator would.

import { pause } from "../cluster/running-cluster.ts";
import type { ChaosCluster } from "./chaos-cluster.ts";
import { ROUTERS } from "./chaos-cluster.ts";
import type { ModelName } from "./answers/model-content.ts";

/** What a whole cluster looks like. */
export interface WholeCluster {
  readonly workers: number;
  /** The version that answers by default. */
  readonly versions: Readonly<Record<ModelName, number>>;
}

const METRICS_MS = 2000;
const LOOK_MS = 200;

/** Waits until the cluster is whole. @throws Error after so long, with what is missing */
export async function untilWhole(
  cluster: ChaosCluster,
  whole: WholeCluster,
  withinMs: number,
): Promise<void> {
  const endMs = Date.now() + withinMs;
  for (;;) {
    const lacks = await lacksOf(cluster, whole);
    if (lacks.length === 0) return;
    if (Date.now() > endMs) throw new Error(`not whole after ${withinMs} ms: ${lacks.join("; ")}`);
    await pause(LOOK_MS);
  }
}

/** What is missing, in words. */
async function lacksOf(cluster: ChaosCluster, whole: WholeCluster): Promise<string[]> {
  const lacks = await Promise.all(
    ROUTERS.map(async (router) => {
      const page = await metricsPage(cluster.ports(router).rest);
      return page === undefined ? [`${router} shows no metrics`] : lacksOfPage(router, page, whole);
    }),
  );
  return lacks.flat();
}

/** Memory that routers still hold for clients though none asks anything, after they had time to let go. */
export async function heldFindings(cluster: ChaosCluster, withinMs: number): Promise<string[]> {
  const endMs = Date.now() + withinMs;
  for (;;) {
    const held = await Promise.all(
      ROUTERS.map(async (router) => {
        const page = await metricsPage(cluster.ports(router).rest);
        const samples = [...(page ?? [])].filter(([name]) => name.startsWith("winnow_held_bytes{"));
        if (samples.length === 0) return [`${router} at rest: tells of no winnow_held_bytes`];
        return samples.flatMap(([name, bytes]) =>
          bytes === 0 ? [] : [`${router} at rest: ${name} ${bytes}`],
        );
      }),
    );
    if (held.flat().length === 0 || Date.now() > endMs) return held.flat();
    await pause(LOOK_MS);
  }
}

type Page = ReadonlyMap<string, number>;

function lacksOfPage(router: string, page: Page, { workers, versions }: WholeCluster): string[] {
  const wanted = new Map([
    [`winnow_membership_workers{state="trusted"}`, workers],
    [`winnow_membership_workers{state="suspect"}`, 0],
  ]);
  for (const [model, version] of Object.entries(versions)) {
    wanted.set(`winnow_model_version{model="${model}"}`, version);
    wanted.set(`winnow_coverage_ratio{model="${model}"}`, 1);
    wanted.set(`winnow_partitions{model="${model}",state="underreplicated"}`, 0);
    wanted.set(`winnow_partitions{model="${model}",state="lost"}`, 0);
  }
  return [...wanted].flatMap(([metric, value]) =>
    page.get(metric) === value ? [] : [`${router}: ${metric} is ${page.get(metric)}, not ${value}`],
  );
}

/** The values of a metrics page; `undefined` where there is none. */
export async function metricsPage(port: number): Promise<Page | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/monitoring/prometheus/metrics`, {
      signal: AbortSignal.timeout(METRICS_MS),
    });
    const text = await response.text();
    const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    return new Map(
      lines.map((line) => {
        const at = line.lastIndexOf(" ");
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
    );
  } catch {
    return undefined;
  }
}
