// What Prometheus reads off a real router and a real worker that serve: the series have the labels that
// docs/metrics.md tells of, alerts and dashboard find the calls that they ask for, and promtool accepts
// both pages.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientOf } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { isInstalled } from "../deploy/manifests.ts";
import { documentedMetrics, metricNamed } from "../metric-table.ts";
import { RunningCluster } from "./running-cluster.ts";
import { supplyPorts } from "../port-supply.ts";

const hasPromtool = isInstalled("promtool", ["--version"]);
const models = mkdtempSync(path.join(tmpdir(), "winnow-pages-"));
let cluster: RunningCluster;
let pages: { readonly router: string; readonly worker: string };

/** What promtool finds, all of it known: names of prom-client's and of TensorFlow Serving's. */
const KNOWN_COMPLAINTS = /^(nodejs_active_\w+_total |:tensorflow:serving:request_(count|latency) )/;

beforeAll(async () => {
  await writeDemo(models, { items: 500, users: 30, dim: 8, k: 5, seed: 1 });
  const [metricsPort, grpcPort] = (await supplyPorts(2)) as [number, number];
  const argsOf = {
    w0: ["--metrics-port", String(metricsPort)],
    router0: ["--grpc-port", String(grpcPort)],
  };
  cluster = await RunningCluster.start({ models, workers: 1, argsOf });
  await cluster.loaded(["movies", "movies-ranking"]);
  for (const [model, instance] of [
    ["movies", "42"],
    ["movies-ranking", { user_id: "42", movie_title: "unknown" }],
    ["nobody", "42"],
  ] as const) {
    const body = JSON.stringify({ instances: [instance] });
    await fetch(`${cluster.url}/v1/models/${model}:predict`, { method: "POST", body });
  }
  const client = clientOf("PredictionService", grpcPort);
  await client.call("Predict", { model_spec: { name: "movies" } }).catch(() => undefined);
  client.close();
  const [router, worker] = await Promise.all(
    [`${cluster.url}/monitoring/prometheus/metrics`, `http://127.0.0.1:${metricsPort}/metrics`].map(
      async (url) => (await fetch(url)).text(),
    ),
  );
  pages = { router: router!, worker: worker! };
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(models, { recursive: true, force: true });
});

/** Name and label names of every series of Winnow's on a page. */
function seriesOf(page: string): { readonly name: string; readonly labels: readonly string[] }[] {
  const lines = page.matchAll(/^(winnow_\w+|:tensorflow:\w+:\w+)(?:\{(.*)\})? \S+$/gm);
  return Array.from(lines, ([, name = "", labels = ""]) => ({
    name,
    labels: Array.from(labels.matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g), (match) => match[1] ?? ""),
  }));
}

describe.each(["router", "worker"] as const)("the metrics page of a %s", (role) => {
  test("has on every series the labels that docs/metrics.md tells of", () => {
    const series = seriesOf(pages[role]);

    const wrong = series.filter(({ name, labels }) => {
      const metric = metricNamed(name);
      const own = labels.filter((label) => label !== "le" || metric?.part !== "bucket");
      return metric === undefined || own.toSorted().join() !== metric.labels.toSorted().join();
    });

    expect(series.length).toBeGreaterThan(20);
    expect(wrong).toEqual([]);
    const shown = new Set(series.map(({ name }) => metricNamed(name)?.name));
    const labelled = documentedMetrics[role].filter(({ name }) => shown.has(name));
    expect(labelled.length).toBeGreaterThan(12);
  });

  test.skipIf(!hasPromtool)(
    "has no fault that promtool finds beyond names that are not ours",
    () => {
      let said = "";
      try {
        execFileSync("promtool", ["check", "metrics"], { input: pages[role], stdio: "pipe" });
      } catch (error) {
        said = String((error as { stderr?: Buffer }).stderr);
      }

      expect(
        said.split("\n").filter((line) => line !== "" && !KNOWN_COMPLAINTS.test(line)),
      ).toEqual([]);
      expect(said).toContain("nodejs_active_handles_total");
    },
  );
});

test("predictions over REST and over gRPC count as the kinds that alerts ask for", () => {
  expect(pages.router).toMatch(
    /^winnow_requests_total\{model="movies",kind="predict",code="OK"\} /m,
  );
  expect(pages.router).toMatch(
    /^winnow_requests_total\{model="movies",kind="grpc:Predict",code="\w+"\} /m,
  );
});
