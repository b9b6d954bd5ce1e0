// One scenario on a running cluster: three windows of load around a fault, then the verdict. A scenario
// fails for a wrong answer, for more failed or refused requests than it promises, for a cluster that
// does not become whole again, and for a process that ends by itself.

import { pause } from "../cluster/running-cluster.ts";
import type { ChaosCluster } from "./chaos-cluster.ts";
import { ROUTERS } from "./chaos-cluster.ts";
import { untilWhole } from "./cluster-health.ts";
import { HostileClients } from "./hostile/hostile-clients.ts";
import { LoadGenerator } from "./load/load-generator.ts";
import type { LoadFigures, WindowFigures } from "./load/load-windows.ts";
import { type PeakHolding, ResourceWatch } from "./process-resources.ts";
import type { Scenario, Stage } from "./scenario.ts";
import type { ModelStage } from "./staged-models.ts";

/** What a scenario runs on, and how. */
export interface ScenarioSetting {
  readonly cluster: ChaosCluster;
  readonly models: ModelStage;
  readonly seed: number;
  readonly random: () => number;
  readonly perSecond: number;
  /** How much longer than at least everything lasts. */
  readonly stretch: number;
  readonly print: (line: string) => void;
}

/** What a scenario showed. */
export interface ScenarioResult {
  readonly name: string;
  readonly title: string;
  readonly group: string;
  readonly topology: string;
  readonly promise: string;
  readonly passed: boolean;
  /** What must not be on any machine, however slow. */
  readonly findings: readonly string[];
  /** Requests beyond what is promised that had no answer; a machine that is too slow has them as well. */
  readonly shortfalls: readonly string[];
  /** What hostile clients saw, and other remarks. */
  readonly notes: readonly string[];
  readonly perSecond: number;
  readonly seconds: number;
  readonly figures: LoadFigures;
  readonly peaks: readonly PeakHolding[];
}

/** Seconds of load around a fault, before they are stretched. */
const WARM_UP_SECONDS = 1.5;
const BEFORE_SECONDS = 2;
const AFTER_SECONDS = 2;
const WHOLE_MS = 60_000;
/** Until a condition that a scenario waits for must hold. */
const UNTIL_MS = 45_000;
const UNTIL_LOOK_MS = 100;
/** A process in drain ends within so long: a worker waits until others hold its partitions. */
const TERMINATED_MS = 60_000;
/** Beyond a request's deadline: what has no answer then hangs. */
const HUNG_MS = 3000;

/** What a scenario costs in seconds when nothing is stretched. */
export function leastSeconds(scenario: Scenario): number {
  return WARM_UP_SECONDS + BEFORE_SECONDS + scenario.seconds + AFTER_SECONDS;
}

/** Runs a scenario. @throws Error when the cluster is not whole to begin with */
export async function runScenario(
  scenario: Scenario,
  setting: ScenarioSetting,
): Promise<ScenarioResult> {
  const { cluster, models, seed } = setting;
  const startMs = Date.now();
  const record: RunRecord = { findings: [], notes: [], workers: cluster.workers.length };
  await untilWhole(cluster, { workers: record.workers, versions: models.current }, WHOLE_MS);
  const endsBefore = cluster.unexpectedEnds().length;
  const perSecond = Math.round(setting.perSecond * (scenario.rateShare ?? 1));
  const pins = { ...models.current };
  const load = await LoadGenerator.start({
    routers: ROUTERS.map((router) => cluster.ports(router)),
    seed,
    perSecond,
    requestMsMax: cluster.plan.requestMs + HUNG_MS,
    resends: scenario.resends ?? false,
    published: models.published,
    pins,
  });
  models.onPublished = (published) => load.tellPublished({ published, pins });
  const watch = new ResourceWatch(() => {
    const own = Array.from(cluster.processes, ([name, { pid }]): [string, number] => [name, pid]);
    return new Map([...own, ["load", load.pid], ["links", cluster.links.pid]]);
  });
  try {
    await runWindows(scenario, { setting, record, load, perSecond });
    const figures = await load.stop();
    record.findings.push(...cluster.unexpectedEnds().slice(endsBefore));
    record.findings.push(...wrongAnswers(figures));
    const shortfalls = shortfallsOf(scenario, figures);
    return {
      name: scenario.name,
      title: scenario.title,
      group: scenario.group,
      topology: scenario.topology,
      promise: promiseText(scenario),
      passed: record.findings.length + shortfalls.length === 0,
      findings: record.findings,
      shortfalls,
      notes: record.notes,
      perSecond,
      seconds: (Date.now() - startMs) / 1000,
      figures,
      peaks: watch.peaks,
    };
  } finally {
    models.onPublished = () => undefined;
    watch.close();
    load.abandon();
  }
}

interface RunRecord {
  readonly findings: string[];
  readonly notes: string[];
  /** How many workers a whole cluster has. */
  workers: number;
}

interface RunningScenario {
  readonly setting: ScenarioSetting;
  readonly record: RunRecord;
  readonly load: LoadGenerator;
  readonly perSecond: number;
}

async function runWindows(scenario: Scenario, running: RunningScenario): Promise<void> {
  const { load, record } = running;
  const stage = stageOf(scenario, running);
  const noting = async (what: string, work: () => Promise<void> | undefined): Promise<void> => {
    try {
      await work();
    } catch (error) {
      record.findings.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await noting("preparing", () => scenario.prepare?.(stage));
  await stage.hold(WARM_UP_SECONDS);
  load.openWindow("before");
  await stage.hold(BEFORE_SECONDS);
  load.openWindow("during");
  await noting("the fault", () => scenario.run(stage));
  await noting("healing", () => stage.links.heal());
  await noting("healing", () => scenario.heal?.(stage));
  const healedMs = Date.now();
  await noting("healing", () => stage.whole());
  record.notes.push(`whole again ${((Date.now() - healedMs) / 1000).toFixed(1)} s after the end`);
  load.openWindow("after");
  await stage.hold(AFTER_SECONDS);
}

function stageOf(scenario: Scenario, { setting, record, load, perSecond }: RunningScenario): Stage {
  const { cluster, models, print, random, stretch } = setting;
  const until: Stage["until"] = async (what, isTrue, withinMs = UNTIL_MS) => {
    const endMs = Date.now() + withinMs;
    while (!(await isTrue())) {
      if (Date.now() > endMs) throw new Error(`${what}: not within ${withinMs} ms`);
      await pause(UNTIL_LOOK_MS);
    }
  };
  return {
    cluster,
    links: cluster.links,
    models,
    random,
    rounds: Math.max(1, Math.round(stretch)),
    until,
    inject: (what) => {
      print(`  ${what}`);
      load.inject(what);
    },
    hold: (seconds) => pause(1000 * seconds * stretch),
    whole: () =>
      untilWhole(
        cluster,
        { workers: record.workers, versions: models.current },
        scenario.wholeWithinMs ?? WHOLE_MS,
      ),
    expectWorkers: (count) => {
      record.workers = count;
    },
    terminate: (name) => terminate(cluster, record, name),
    finding: (text) => void record.findings.push(text),
    burst: (count) => load.burst(count),
    setRate: (rate = perSecond) => load.setRate(rate),
    hostile: async (attack, options) => {
      const clients = await HostileClients.start(cluster, { attack, ...options });
      return async () => {
        const seen = await clients.stop();
        record.notes.push(`${attack}: ${seen}`);
        return seen;
      };
    },
  };
}

async function terminate(cluster: ChaosCluster, record: RunRecord, name: string): Promise<void> {
  const one = cluster.process(name);
  one.signal("SIGTERM");
  const code = await Promise.race([one.ended(), pause(TERMINATED_MS).then(() => "no end")]);
  if (code === 0) return;
  record.findings.push(`${name} after SIGTERM: ${code} (at most ${TERMINATED_MS / 1000} s)`);
  await one.kill();
}

function wrongAnswers({ windows }: LoadFigures): string[] {
  const wrong = windows.reduce((total, { counts }) => total + counts.wrong, 0);
  return wrong > 0 ? [`${wrong} wrong answers`] : [];
}

function shortfallsOf({ promise = {} }: Scenario, { windows }: LoadFigures): string[] {
  const { failedMax = 0, refusedMax = 0, exactRatioMin = 0 } = promise;
  const sum = (of: (window: WindowFigures) => number): number =>
    windows.reduce((total, window) => total + of(window), 0);
  const failed = sum(({ counts }) => counts.failed);
  const refused = sum(({ counts }) => counts.refused);
  const during = windows.find(({ name }) => name === "during");
  const exactRatio = during === undefined ? 1 : during.counts.exact / during.requests;
  const silent = windows.filter(({ name, counts }) => name !== "during" && counts.exact === 0);
  return [
    ...(failed > failedMax ? [`${failed} failed requests, promised are ${failedMax}`] : []),
    ...(refused > refusedMax ? [`${refused} refused requests, promised are ${refusedMax}`] : []),
    ...(exactRatio < exactRatioMin
      ? [`${(100 * exactRatio).toFixed(1)} % exact during the fault`]
      : []),
    ...silent.map(({ name }) => `no exact answer in the window "${name}"`),
  ];
}

function promiseText({ promise = {} }: Scenario): string {
  const { failedMax = 0, refusedMax = 0, because } = promise;
  const count = (max: number): string => {
    if (max === Infinity) return "some";
    return String(max);
  };
  const text = `0 wrong, ${count(failedMax)} failed, ${count(refusedMax)} refused`;
  return because === undefined ? text : `${text}: ${because}`;
}
