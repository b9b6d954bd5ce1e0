// A campaign: scenarios in an order drawn from a seed, those of one kind of cluster after one another
// on the same processes, so that what a fault leaves behind meets the next one. A cluster is given up
// only when it does not become whole again. The report is written after every scenario, and a
// campaign that was broken off goes on where it ended.

import { mkdirSync, rmSync } from "node:fs";
import path from "node:path";
import { CampaignReport } from "./campaign-report.ts";
import { ChaosCluster, type TopologyName } from "./chaos-cluster.ts";
import { heldFindings, untilWhole } from "./cluster-health.ts";
import { numbersOf } from "./answers/model-content.ts";
import { LeakWatch } from "./process-resources.ts";
import { type Scenario, shuffled } from "./scenario.ts";
import { SCENARIOS } from "./scenario-list.ts";
import { type ScenarioResult, leastSeconds, runScenario } from "./scenario-run.ts";
import { ModelStage } from "./staged-models.ts";

/** What to run. */
export interface Campaign {
  /** Time for all of it. */
  readonly minutes: number;
  readonly seed: number;
  /** Requests per second; a scenario may take a share. */
  readonly perSecond: number;
  /** Names, or parts of names, of scenarios; empty: all. */
  readonly only: readonly string[];
  /** Where report, logs and models go. */
  readonly folder: string;
  /** The built checkout whose processes are run. */
  readonly checkout: string;
  /** Goes on with the report in the folder: scenarios that passed there are not run again. */
  readonly resumes: boolean;
  readonly print: (line: string) => void;
}

/** What a campaign showed. */
export interface CampaignResult {
  readonly results: readonly ScenarioResult[];
  readonly failed: readonly string[];
  readonly reportFile: string;
}

const WORKERS = 3;
const REQUEST_MS = 10_000;
const STARTED_WITHIN_MS = 90_000;
/** Starting a cluster, and making it whole between scenarios. */
const CLUSTER_SECONDS = 6;
const BETWEEN_SECONDS = 1.5;
const TOPOLOGIES: readonly TopologyName[] = ["list", "redis", "namespaces"];

/** What will be run: chosen, ordered, and stretched to fill the time. */
export interface CampaignPlan {
  readonly scenarios: readonly Scenario[];
  readonly stretch: number;
  readonly seconds: number;
}

/** The plan of a campaign. Where time is too short for all, the brief ones come first. */
export function planCampaign({ only, seed, minutes }: Campaign): CampaignPlan {
  const random = numbersOf(`order ${seed}`);
  const chosen = shuffled(SCENARIOS, random).filter(
    ({ name, absence }) =>
      (only.length === 0 || only.some((part) => name.includes(part))) && (absence?.() ?? "") === "",
  );
  const budget = 60 * minutes;
  const taken: Scenario[] = [];
  for (const scenario of chosen.toSorted((a, b) => rank(a) - rank(b))) {
    const isChosenByName = only.length > 0;
    if (isChosenByName || secondsOf([...taken, scenario], 1) <= budget) taken.push(scenario);
  }
  const order = chosen.filter((scenario) => taken.includes(scenario));
  const scenarios = TOPOLOGIES.flatMap((name) => order.filter(({ topology }) => topology === name));
  const fixed = secondsOf(scenarios, 0);
  const stretched = secondsOf(scenarios, 1) - fixed;
  const stretch = Math.max(1, (budget - fixed) / Math.max(1, stretched));
  return { scenarios, stretch, seconds: fixed + stretch * stretched };
}

const rank = ({ isBrief }: Scenario): number => (isBrief === true ? 0 : 1);

function secondsOf(scenarios: readonly Scenario[], stretch: number): number {
  const clusters = new Set(scenarios.map(({ topology }) => topology)).size;
  const seconds = scenarios.map((scenario) => stretch * leastSeconds(scenario) + BETWEEN_SECONDS);
  return clusters * CLUSTER_SECONDS + seconds.reduce((sum, each) => sum + each, 0);
}

/** Runs a campaign. */
export async function runCampaign(campaign: Campaign): Promise<CampaignResult> {
  const { print, folder } = campaign;
  mkdirSync(folder, { recursive: true });
  const plan = planCampaign(campaign);
  const report = CampaignReport.open(folder, campaign);
  const left = plan.scenarios.filter(({ name }) => !report.hasPassed(name));
  const stretch = plan.stretch.toFixed(1);
  print(
    `${left.length} scenarios, about ${(plan.seconds / 60).toFixed(1)} minutes (stretched ${stretch}×), ` +
      `seed ${campaign.seed}, ${campaign.perSecond} requests/s`,
  );
  const stand = new ClusterStand(campaign);
  try {
    for (const [index, scenario] of left.entries()) {
      print(`${index + 1}/${left.length} ${scenario.name}: ${scenario.title}`);
      const result = await stand.run(scenario, plan.stretch);
      report.add(result);
      print(resultLine(result));
      for (const text of [...result.findings, ...result.shortfalls]) print(`  ! ${text}`);
      for (const { text, class: kind, window } of result.figures.seen.slice(0, 6)) {
        print(`    ${kind} ${window}: ${text.replaceAll(/\s+/g, " ").slice(0, 220)}`);
      }
    }
  } finally {
    await stand.close();
  }
  report.finish();
  const failed = report.results.filter(({ passed }) => !passed).map(({ name }) => name);
  return { results: report.results, failed, reportFile: report.file };
}

function resultLine({ passed, figures, seconds }: ScenarioResult): string {
  const windows = figures.windows.map(
    ({ name, requests, p99Ms }) => `${name} ${requests} p99 ${p99Ms.toFixed(0)} ms`,
  );
  const count = (of: "failed" | "wrong" | "refused" | "partial"): number =>
    figures.windows.reduce((sum, { counts }) => sum + counts[of], 0);
  const recovery = Math.max(0, ...figures.disturbances.map(({ recoveryMs }) => recoveryMs));
  return (
    `  ${passed ? "passed" : "FAILED"} in ${seconds.toFixed(0)} s: ${windows.join(", ")}; ` +
    `wrong ${count("wrong")}, failed ${count("failed")}, refused ${count("refused")}, ` +
    `partial ${count("partial")}; disturbed at most ${(recovery / 1000).toFixed(1)} s`
  );
}

/** Longer than the slowest client may take to be given up. */
const HELD_MS = 40_000;

/** The cluster of the moment. */
class ClusterStand {
  readonly #campaign: Campaign;
  readonly #random: () => number;
  #cluster: ChaosCluster | undefined;
  #models: ModelStage | undefined;
  #leaks: LeakWatch | undefined;
  #started = 0;

  constructor(campaign: Campaign) {
    this.#campaign = campaign;
    this.#random = numbersOf(`faults ${campaign.seed}`);
  }

  /** Runs a scenario on a cluster of its kind, which is kept if it is whole afterwards. */
  async run(scenario: Scenario, stretch: number): Promise<ScenarioResult> {
    const { seed, perSecond, print } = this.#campaign;
    if (this.#cluster?.plan.topology !== scenario.topology) {
      await this.close();
      await this.#start(scenario.topology);
    }
    const cluster = this.#cluster!;
    const models = this.#models!;
    const setting = { cluster, models, seed, random: this.#random, perSecond, stretch, print };
    const result = await runScenario(scenario, setting);
    const findings = [
      ...result.findings,
      ...(await this.#leaks!.findings()),
      ...(await heldFindings(cluster, HELD_MS)),
    ];
    const isWhole = !findings.some((finding) => finding.startsWith("healing"));
    if (!isWhole) await this.close();
    return { ...result, findings, passed: result.passed && findings.length === 0 };
  }

  async close(): Promise<void> {
    await this.#cluster?.stop();
    this.#cluster = undefined;
    if (this.#models !== undefined) rmSync(this.#models.folder, { recursive: true, force: true });
  }

  async #start(topology: TopologyName): Promise<void> {
    this.#started += 1;
    const folder = path.join(this.#campaign.folder, `${this.#started}-${topology}`);
    rmSync(folder, { recursive: true, force: true });
    const models = new ModelStage(path.join(folder, "models"));
    this.#models = models;
    this.#cluster = await ChaosCluster.start({
      topology,
      workers: WORKERS,
      models: models.folder,
      folder,
      requestMs: REQUEST_MS,
      checkout: this.#campaign.checkout,
    });
    const cluster = this.#cluster;
    try {
      const whole = { workers: WORKERS, versions: models.current };
      await untilWhole(cluster, whole, STARTED_WITHIN_MS);
    } catch (cause) {
      const ends = cluster.unexpectedEnds().join(", ");
      const text = `The cluster did not start: ${String(cause)} ${ends}\n${cluster.logTails()}`;
      throw new Error(text, { cause });
    }
    this.#leaks = new LeakWatch(
      () => new Map(Array.from(cluster.processes, ([name, { pid }]) => [name, pid])),
    );
  }
}

/** Name, cluster and deed of every scenario, for `--list`. */
export function scenarioLines(): string[] {
  return SCENARIOS.map(({ name, topology, title, absence }) => {
    const reason = absence?.() ?? "";
    return `${name.padEnd(24)} ${topology.padEnd(10)} ${title}${reason === "" ? "" : ` (${reason})`}`;
  });
}
