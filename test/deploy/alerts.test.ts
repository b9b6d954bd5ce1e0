// Alerts, held to their word by promtool: a cluster that is well fires none; each fault fires its own
// alert and no other, and not before its time.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { isInstalled, objectsOf } from "./manifests.ts";
import { type Situation, WELL, situations } from "./situations.ts";
import { metricUses, queryFaults } from "./metric-query.ts";
import { readTracked } from "../tracked-files.ts";

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

const [rules] = objectsOf(readTracked("deploy/kubernetes/components/monitoring/alerts.yaml"));
const groups = rules!.spec["groups"] as { readonly rules: readonly Alert[] }[];
const alerts = groups.flatMap((group) => group.rules);
const hasPromtool = isInstalled("promtool", ["--version"]);
const folder = mkdtempSync(path.join(tmpdir(), "winnow-alerts-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("alerts", () => {
  test("say how urgent they are, what is wrong and what to do", () => {
    for (const { alert, labels, annotations } of alerts) {
      expect(alert).toMatch(/^Winnow[A-Z]\w+$/);
      expect(labels.severity, `of ${alert}`).toMatch(/^(critical|warning)$/);
      expect(annotations.summary.length, `of ${alert}`).toBeGreaterThan(20);
      expect(annotations.description.length, `of ${alert}`).toBeGreaterThan(40);
    }
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
  });

  test("stand in docs/kubernetes.md, as urgent as they are and as patient", () => {
    const told = readTracked("docs/kubernetes.md").matchAll(
      /^\| `(Winnow\w+)` \| (\w+) \| (.*) \|$/gm,
    );
    const patience = (words: string): string | undefined =>
      /for (\d+) minutes?\b/.exec(words)?.[1]?.concat("m");

    const rows = Array.from(told, ([, alert, severity, words = ""]) => ({
      alert,
      severity,
      for: patience(words),
    }));

    const rules = alerts.map((each) => ({
      alert: each.alert,
      severity: each.labels.severity,
      for: each.for,
    }));
    expect(new Map(rows.map((row) => [row.alert, row]))).toEqual(
      new Map(rules.map((rule) => [rule.alert, rule])),
    );
  });

  test("ask for metrics that exist, with labels that they have", () => {
    const faults = alerts
      .filter(({ alert }) => alert !== "WinnowMetricsAbsent")
      .flatMap(({ alert, expr }) => queryFaults(expr).map((fault) => `${alert}: ${fault}`));

    expect(faults).toEqual([]);
    for (const { alert, expr } of alerts) expect(metricUses(expr), `of ${alert}`).not.toEqual([]);
  });

  test("are each fired by a situation of this file, made of series that exist", () => {
    const fired = new Set(situations.flatMap(({ firing = {} }) => Object.keys(firing)));
    const series = Object.keys(Object.assign({}, WELL, ...situations.map((each) => each.series)));
    const parts = series.map((name) => metricUses(name)[0]!);

    expect([...fired].toSorted()).toEqual(alerts.map(({ alert }) => alert).toSorted());
    for (const { metric, matchers, name } of parts) {
      const own = matchers
        .map(({ label }) => label)
        .filter((label) => !/^(namespace|pod|le)$/.test(label));
      expect(own.toSorted(), `of ${name}`).toEqual(metric?.labels.toSorted());
    }
  });

  test.skipIf(!hasPromtool)("are rules that promtool accepts", () => {
    const said = promtool("check", "rules", rulesFile());

    expect(said).toContain(`SUCCESS: ${alerts.length} rules found`);
  });

  describe.skipIf(!hasPromtool)("in a situation", () => {
    const fileOf = (situation: Situation): string =>
      path.join(folder, `situation-${situations.indexOf(situation)}.yaml`);
    let ended: ReturnType<typeof testedRules>;

    beforeAll(() => {
      for (const each of situations) writeFileSync(fileOf(each), stringify(asUnitTest(each)));
      ended = testedRules(situations.map((each) => fileOf(each)));
    });

    test.each(situations)("$title", (situation) => {
      const said = ended.said.get(fileOf(situation));

      expect(said === "SUCCESS" ? said : ended.faults).toBe("SUCCESS");
    });
  });
});

/** What promtool says of each file of tests, and of faults in any: one process for all, as each takes a while to start. */
function testedRules(files: readonly string[]): {
  readonly said: ReadonlyMap<string, string>;
  readonly faults: string;
} {
  const { stdout, stderr } = spawnSync("promtool", ["test", "rules", ...files], {
    encoding: "utf8",
  });
  const parts = stdout.split("Unit Testing:").slice(1);
  const said = parts.map((part): [string, string] => {
    const [file = "", ...lines] = part.trim().split("\n");
    return [file, lines.join("\n").trim()];
  });
  return { said: new Map(said), faults: stderr };
}

/** Rules without their Kubernetes dress, as promtool reads them. */
function rulesFile(): string {
  const file = path.join(folder, "alerts.yaml");
  writeFileSync(file, stringify({ groups }));
  return file;
}

function asUnitTest({ series, without, minute, firing = {} }: Situation): unknown {
  const all = Object.entries({ ...WELL, ...series }).filter(
    ([name]) => without?.test(name) !== true,
  );
  const samples = Object.entries(firing).map(([alertname, labels]) => {
    const severity = alerts.find(({ alert }) => alert === alertname)?.labels.severity;
    const told = { alertname, alertstate: "firing", severity, ...labels };
    const matchers = Object.entries(told).map(([label, value]) => `${label}="${value}"`);
    return { labels: `ALERTS{${matchers.join(",")}}`, value: 1 };
  });
  return {
    rule_files: [rulesFile()],
    evaluation_interval: "1m",
    tests: [
      {
        interval: "1m",
        input_series: all.map(([name, values]) => ({ series: name, values })),
        promql_expr_test: [
          { expr: 'ALERTS{alertstate="firing"}', eval_time: `${minute}m`, exp_samples: samples },
        ],
      },
    ],
  };
}

/** What promtool says. @throws Error with its words where it finds a fault */
function promtool(...args: readonly string[]): string {
  return execFileSync("promtool", [...args], { encoding: "utf8", stdio: "pipe" });
}
