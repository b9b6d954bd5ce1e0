// What operators look at: pod monitors that point at real ports, a dashboard whose every query asks for
// metrics that exist, with their labels and units, and documents that name no other metrics. Alerts have
// their own file.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createMetrics } from "@winnow/router";
import { describe, expect, test } from "vitest";
import { stringify } from "yaml";
import {
  type KubernetesObject,
  at,
  containersOf,
  find,
  fits,
  isInstalled,
  isWorkload,
  podLabels,
  render,
} from "./manifests.ts";
import { aggregations, metricUses, queryFaults } from "./metric-query.ts";
import { documentedMetrics, metricNamed } from "../metric-table.ts";
import { readTracked, trackedFiles } from "../tracked-files.ts";

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly datasource?: unknown;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly Target[];
}
interface Target {
  readonly refId: string;
  readonly expr: string;
  readonly legendFormat?: string;
}
interface Dashboard {
  readonly templating: { readonly list: readonly { readonly name: string; query: unknown }[] };
  readonly panels: readonly Panel[];
}

const COMPONENT = "deploy/kubernetes/components/monitoring";
const hasKubectl = isInstalled("kubectl", ["version", "--client"]);
const hasPromtool = isInstalled("promtool", ["--version"]);
const dashboard = JSON.parse(readTracked(`${COMPONENT}/dashboard.json`)) as Dashboard;
const panels = dashboard.panels.filter(({ type }) => type !== "row");
const queries = panels.flatMap((panel) =>
  (panel.targets ?? []).map((target) => ({
    panel,
    target,
    where: `${panel.title} ${target.refId}`,
  })),
);

/** An expression as Grafana sends it. */
const filledIn = (expression: string): string =>
  expression
    .replaceAll("$__rate_interval", "1m")
    .replaceAll("$namespace", "winnow")
    .replaceAll("$model", ".*");

const unitShown = (panel: Panel): string => panel.fieldConfig?.defaults.unit ?? "";

/** The unit of an expression's values, as Grafana calls it, by the name of its first metric. */
function unitOf(expression: string): RegExp {
  const { name = "" } = metricUses(expression)[0] ?? {};
  if (/_seconds(_bucket|_sum)?$/.test(name)) return /^s$/;
  if (/_ratio$|busy_seconds_total$/.test(name)) return /^percentunit$/;
  const isQuotient = expression.includes(" / ");
  if (isQuotient) return /_bytes$|_requests_total$/.test(name) ? /^percentunit$/ : /^none$/;
  if (name.endsWith("_bytes")) return /^bytes$/;
  if (name.endsWith("_bytes_total")) return /^Bps$/;
  return /\brate\(/.test(expression) ? /^(reqps|cps)$/ : /^none$/;
}

describe.skipIf(!hasKubectl)("pod monitors", () => {
  const objects = hasKubectl ? render("overlays/prod-cpu") : [];
  const monitors = objects.filter(({ kind }) => kind === "PodMonitor");
  interface Endpoint {
    readonly port: string;
    readonly path: string;
  }

  const monitored = (monitor: KubernetesObject): KubernetesObject[] =>
    objects
      .filter(isWorkload)
      .filter((each) => fits(podLabels(each), monitor.spec["selector"] as object));

  test("select one role each, and both roles", () => {
    const selected = monitors.map((monitor) =>
      monitored(monitor).map(({ metadata }) => metadata.name),
    );

    expect(selected).toEqual([["winnow-router"], ["winnow-shard"]]);
  });

  test("read the port and the path that the pods' annotations name", () => {
    for (const monitor of monitors) {
      const [workload] = monitored(monitor);
      const annotations = at(workload!.spec, "template", "metadata", "annotations");
      const ports = containersOf(workload!).flatMap((container) => container.ports);

      const read = (monitor.spec["podMetricsEndpoints"] as Endpoint[]).map((endpoint) => ({
        port: ports.find(({ name }) => name === endpoint.port)?.containerPort,
        path: endpoint.path,
      }));

      const port = Number(at(annotations, "prometheus.io/port"));
      expect(read).toEqual([{ port, path: at(annotations, "prometheus.io/path") }]);
    }
  });

  test("are let in by a policy that the same label opens which the component tells of", () => {
    const told = readTracked(`${COMPONENT}/kustomization.yaml`);
    const policy = find(objects, "NetworkPolicy", "winnow-shard-monitoring");

    const [label, value] = Object.entries(
      at(policy.spec, "ingress", "0", "from", "0", "namespaceSelector", "matchLabels") as object,
    )[0] as [string, string];

    expect(told).toContain(`${label}=${value}`);
  });
});

describe("the dashboard", () => {
  test("has the rows of an incident, from the verdict down", () => {
    const rows = dashboard.panels.filter(({ type }) => type === "row").map(({ title }) => title);

    expect(rows).toEqual([
      "Verdict",
      "Traffic",
      "Latency",
      "Stages",
      "Workers",
      "Accelerators",
      "Membership",
      "Rollout",
      "Experiments and pipelines",
    ]);
  });

  test("gives every panel its own number and place", () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );

    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    expect(new Set(cells).size).toBe(cells.length);
    for (const { gridPos } of dashboard.panels)
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  });

  test("asks the chosen data source for the chosen namespace alone", () => {
    for (const { panel, target, where } of queries) {
      expect(panel.datasource, `at ${where}`).toEqual({ type: "prometheus", uid: "${datasource}" });
      for (const { matchers, name } of metricUses(target.expr)) {
        expect(matchers, `${where} ${name}`).toContainEqual({
          label: "namespace",
          value: "$namespace",
        });
      }
    }
  });

  test("asks for metrics that exist, with labels that they have", () => {
    const variables = dashboard.templating.list.map(({ query }) => JSON.stringify(query));
    const asked = variables.flatMap((query) => query.match(/winnow_\w+/g) ?? []);

    const faults = queries.flatMap(({ target, where }) =>
      queryFaults(target.expr).map((fault) => `${where}: ${fault}`),
    );

    expect(faults).toEqual([]);
    expect(asked.filter((name) => metricNamed(name) === undefined)).toEqual([]);
    expect(asked).toHaveLength(2);
  });

  test("asks for no metric of the process that no page has", async () => {
    const page = await createMetrics({ version: "1.2.3" }).text();
    const known = new Set(Array.from(page.matchAll(/^# TYPE (\S+) /gm), (match) => match[1]));
    const asked = queries.flatMap(
      ({ target }) => target.expr.match(/\b(nodejs|process)_\w+/g) ?? [],
    );

    expect(asked.length).toBeGreaterThan(1);
    expect(asked.filter((name) => !known.has(name))).toEqual([]);
  });

  test("shows every metric of Winnow's own", () => {
    const shown = new Set(
      queries.flatMap(({ target }) => metricUses(target.expr)).map((use) => use.metric?.name),
    );
    const all = [...documentedMetrics.router, ...documentedMetrics.worker];

    const hidden = all.filter(({ name }) => name.startsWith("winnow_") && !shown.has(name));

    expect(hidden.map(({ name }) => name)).toEqual([]);
  });

  test("names in a legend only labels that the result keeps", () => {
    for (const { target, where } of queries) {
      const isOne = /^\(*(sum|min|max|count)\(/.test(target.expr);
      const kept = (isOne ? undefined : aggregations(target.expr)[0]?.by) ?? [];
      const named = target.legendFormat?.match(/(?<=\{\{)\w+/g) ?? [];

      expect(kept, `at ${where}`).toEqual(expect.arrayContaining(named));
      // What tells series apart stands in their names.
      const apart = kept.filter((label) => label !== "le" && target.legendFormat !== undefined);
      expect(named, `at ${where}`).toEqual(expect.arrayContaining(apart));
    }
  });

  test("has units that are those of the metrics", () => {
    const wrong = queries
      .filter(({ panel, target }) => panel.type !== "table" && metricUses(target.expr).length > 0)
      .filter(({ panel, target }) => !unitOf(target.expr).test(unitShown(panel)))
      .map(({ panel, where }) => `${where}: ${unitShown(panel)}`);

    expect(wrong).toEqual([]);
  });

  test.skipIf(!hasPromtool)("has queries that promtool can parse", () => {
    const folder = mkdtempSync(path.join(tmpdir(), "winnow-dashboard-"));
    const rules = queries.map(({ target }, index) => ({
      record: `query:${index}`,
      expr: filledIn(target.expr),
    }));
    const file = path.join(folder, "queries.yaml");
    writeFileSync(file, stringify({ groups: [{ name: "dashboard", rules }] }));

    const said = execFileSync("promtool", ["check", "rules", file], { encoding: "utf8" });
    rmSync(folder, { recursive: true });

    expect(said).toContain(`SUCCESS: ${queries.length} rules found`);
    expect(rules.map(({ expr }) => expr).join()).not.toContain("$");
  });

  test.skipIf(!hasKubectl)("reaches Grafana's sidecar as one ConfigMap, label and all", () => {
    const map = find(render("overlays/prod-cpu"), "ConfigMap", "winnow-dashboard");

    expect(map.metadata.labels).toMatchObject({ grafana_dashboard: "1" });
    expect(JSON.parse((map["data"] as Record<string, string>)["winnow.json"] ?? "")).toEqual(
      dashboard,
    );
  });
});

describe("documents and manifests", () => {
  const texts = trackedFiles.filter((file) =>
    /^(\w+\.md|docs\/.*\.md|packages\/\w+\/README\.md|deploy\/.*\.yaml)$/.test(file),
  );

  test("name no metric that does not exist", () => {
    const wrong = texts.flatMap((file) => {
      const names = readTracked(file).match(/\bwinnow_[a-z][a-z_]*[a-z]\b/g) ?? [];
      return names
        .filter((name) => metricNamed(name) === undefined)
        .map((name) => `${file}: ${name}`);
    });

    expect(texts).toContain("README.md");
    expect(wrong).toEqual([]);
  });

  test("advise on metrics with labels that they have", () => {
    const advice = readTracked("docs/metrics.md").split("## What to watch")[1] ?? "";
    const expressions = Array.from(
      advice.matchAll(/`([^`]*winnow_[^`]*)`/g),
      (match) => match[1] ?? "",
    );

    // A bare name is a metric that somebody should look at, not an expression.
    const asked = expressions.filter((expression) => /[^\w]/.test(expression));

    expect(asked.length).toBeGreaterThan(4);
    expect(asked.flatMap(queryFaults)).toEqual([]);
  });
});
