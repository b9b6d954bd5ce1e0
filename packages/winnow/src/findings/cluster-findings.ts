// What the reports of a cluster's routers mean together: which router is behind, which settings conflict,
// what the next failure would break. `commands/doctor.ts` asks the routers.

import type { ClusterReport, Severity, VersionReport, WorkerReport } from "@winnow/router";
import type { Finding } from "./machine-findings.ts";
import { byteText } from "../progress-line.ts";

/** A router that answered. */
interface AnsweredRouter {
  readonly url: string;
  readonly report: ClusterReport;
  /** Time of its clock in the answer, in ms since 1970, to the second; absent: unknown. */
  readonly clockMs?: number | undefined;
}

/** A router that did not answer. */
interface SilentRouter {
  readonly url: string;
  readonly error: string;
}

/** The result of asking a router. */
export type AskedRouter = AnsweredRouter | SilentRouter;

/** Difference that whole seconds and the duration of requests can explain. */
const SKEW_MS_MAX = 3000;
/** A worker takes the time of its start as its incarnation, or one more than the incarnation before. */
const LIFE_AHEAD_MS_MAX = 60_000;
const MEMORY_USED_MAX = 0.9;
const CAPACITIES_RATIO_MAX = 1.5;
const NAMES_MAX = 8;

/** All findings; `nowMs`: this machine's clock. */
export function clusterFindings(asked: readonly AskedRouter[], nowMs: number): Finding[] {
  const answered = asked.filter((each): each is AnsweredRouter => "report" in each);
  const reach = asked.map(reachFinding);
  if (answered.length === 0) return reach;
  const workers = workersOf(answered);
  return [
    ...reach,
    ...healthFindings(answered),
    releaseFinding(answered, workers),
    clockFinding(answered, workers, nowMs),
    memoryFinding(workers),
    spareFinding(answered, workers),
    ...settingsFindings(answered, workers),
  ];
}

function reachFinding(asked: AskedRouter): Finding {
  if ("error" in asked) return { subject: "router", state: "fault", text: asked.error };
  const { version, isReady, traffic } = asked.report.router;
  const text = `${asked.url} answers: Winnow ${version}, ${traffic.requestsPerSecond} requests/s`;
  if (isReady) return { subject: "router", state: "good", text };
  return {
    subject: "router",
    state: "fault",
    text: `${text}, not ready: no traffic should reach it`,
  };
}

/** Each worker once, from the router that heard from it last. */
function workersOf(answered: readonly AnsweredRouter[]): readonly WorkerReport[] {
  const byId = new Map<string, WorkerReport>();
  for (const { report } of answered) {
    for (const worker of report.workers) {
      const known = byId.get(worker.id);
      const isNewer = (worker.heardAgoMs ?? Infinity) < (known?.heardAgoMs ?? Infinity);
      if (known === undefined || isNewer) byId.set(worker.id, worker);
    }
  }
  return [...byId.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

const STATE_OF: Readonly<Record<Severity, Finding["state"]>> = {
  ok: "good",
  degraded: "fault",
  down: "fault",
};

/** The routers' own findings; equal ones of several routers are listed once. */
function healthFindings(answered: readonly AnsweredRouter[]): Finding[] {
  const seen = new Map<string, Finding>();
  for (const { report } of answered) {
    const { findings, sentence, severity } = report.health;
    const told = findings.length > 0 ? findings : [{ severity, text: sentence, remedy: "" }];
    for (const { severity: each, text, remedy } of told) {
      const details = remedy === "" ? [] : [remedy];
      seen.set(text, { subject: "health", state: STATE_OF[each], text, details });
    }
  }
  return [...seen.values()];
}

function releaseFinding(
  answered: readonly AnsweredRouter[],
  workers: readonly WorkerReport[],
): Finding {
  const subject = "releases";
  const ofRouters = answered.map(({ url, report }) => [report.router.version, url] as const);
  const ofWorkers = workers.map(({ id, release = "not told" }) => [release, id] as const);
  const groups = grouped([...ofRouters, ...ofWorkers]);
  if (groups.size === 1) {
    const [release] = groups.keys();
    return { subject, state: "good", text: `${release} everywhere` };
  }
  const text = `${groups.size} releases of Winnow run together: finish the upgrade`;
  return { subject, state: "note", text, details: groupLines(groups) };
}

function clockFinding(
  answered: readonly AnsweredRouter[],
  workers: readonly WorkerReport[],
  nowMs: number,
): Finding {
  const subject = "clocks";
  const details = answered.flatMap(({ url, clockMs }) => {
    const aheadMs = clockMs === undefined ? 0 : clockMs - nowMs;
    if (Math.abs(aheadMs) <= SKEW_MS_MAX) return [];
    return [`${url} is ${secondsText(Math.abs(aheadMs))} ${aheadMs > 0 ? "ahead" : "behind"}`];
  });
  for (const { id, incarnation = 0 } of workers) {
    const aheadMs = incarnation - nowMs;
    if (aheadMs <= LIFE_AHEAD_MS_MAX) continue;
    details.push(`worker ${id} began ${secondsText(aheadMs)} in the future, by its clock`);
  }
  if (details.length === 0) {
    return { subject, state: "good", text: `agree with this machine's to ${SKEW_MS_MAX / 1000} s` };
  }
  const text = "differ from this machine's: logs and certificates need the time, answers do not";
  return { subject, state: "note", text, details };
}

const secondsText = (ms: number): string => `${Math.round(ms / 1000)} s`;

function memoryFinding(workers: readonly WorkerReport[]): Finding {
  const subject = "memory";
  const told = workers.filter(({ memoryCapacityBytes }) => memoryCapacityBytes > 0);
  const details = told
    .filter((worker) => worker.memoryUsedBytes > MEMORY_USED_MAX * worker.memoryCapacityBytes)
    .map(({ id, memoryUsedBytes: used, memoryCapacityBytes: all }) => {
      return `worker ${id}: ${byteText(used)} of ${byteText(all)} for rows`;
    });
  if (details.length > 0) {
    const text = "nearly full: a new version beside the old one may not fit; add workers or memory";
    return { subject, state: "note", text, details };
  }
  const capacities = told.map(({ memoryCapacityBytes }) => memoryCapacityBytes);
  const [least, most] = [Math.min(...capacities), Math.max(...capacities)];
  const range = least === most ? byteText(most) : `${byteText(least)} to ${byteText(most)}`;
  if (told.length === 0) return { subject, state: "note", text: "no worker has reported it" };
  if (most <= CAPACITIES_RATIO_MAX * least) {
    return { subject, state: "good", text: `${range} for rows per worker, none nearly full` };
  }
  const text = `${range} for rows per worker: partitions are spread evenly, so the smallest fills first`;
  return { subject, state: "note", text };
}

/** Conditions of a worker that answers. */
const ANSWERING: ReadonlySet<WorkerReport["condition"]> = new Set(["ready", "suspect"]);

const lacksReplicas = ({ isDefault, partitions }: VersionReport): boolean =>
  isDefault && partitions.underreplicated + partitions.lost > 0;

/** Whether a worker may end without the loss of a partition. */
function spareFinding(
  answered: readonly AnsweredRouter[],
  workers: readonly WorkerReport[],
): Finding {
  const subject = "spare";
  const replication = Math.max(...answered.map(({ report }) => replicationOf(report)));
  const single = answered.flatMap(({ report }) =>
    report.models.flatMap(({ name, versions }) =>
      versions.some(({ isDefault, replicasIntended }) => isDefault && replicasIntended === 1)
        ? [name]
        : [],
    ),
  );
  const answering = workers.filter(({ condition }) => ANSWERING.has(condition)).length;
  if (answering < replication) {
    const text = `${answering} of at least ${replication} workers that --replication ${replication} needs`;
    return { subject, state: "note", text };
  }
  const lacking = answered.flatMap(({ report }) =>
    report.models.flatMap(({ name, versions }) => (versions.some(lacksReplicas) ? [name] : [])),
  );
  if (single.length === 0 && lacking.length > 0) {
    const text = `replicas of ${listed([...new Set(lacking)])} are missing: a worker that ends now may cost answers`;
    return { subject, state: "note", text };
  }
  if (single.length === 0) {
    return {
      subject,
      state: "good",
      text: `any ${replication - 1} of ${answering} workers may end`,
    };
  }
  const text = `only one replica of ${listed([...new Set(single)])}: when a worker ends, requests fail until it is back (--replication 2)`;
  return { subject, state: "note", text };
}

const replicationOf = ({ router }: ClusterReport): number => Number(router.settings["replication"]);

function settingsFindings(
  answered: readonly AnsweredRouter[],
  workers: readonly WorkerReport[],
): Finding[] {
  const subject = "settings";
  const findings: Finding[] = [];
  const placements = grouped(
    workers.flatMap(({ id, placement }) => (placement === undefined ? [] : [[placement, id]])),
  );
  if (placements.size > 1) {
    const text = "workers place partitions by different settings: give all of them the same";
    findings.push({ subject, state: "fault", text, details: groupLines(placements) });
  }
  const replications = grouped([
    ...answered.map(({ url, report }) => [String(replicationOf(report)), url] as const),
    ...workers.flatMap(({ id, placement }) => {
      const said = /^replication (\d+)/.exec(placement ?? "")?.[1];
      return said === undefined ? [] : [[said, id] as const];
    }),
  ]);
  if (replications.size > 1) {
    const text = "--replication differs: routers wait for replicas that workers do not hold";
    findings.push({ subject, state: "fault", text, details: groupLines(replications) });
  }
  const accelerators = grouped(
    workers.flatMap(({ id, accelerator }) => (accelerator === "" ? [] : [[accelerator, id]])),
  );
  if (accelerators.size > 1) {
    const text = "accelerators differ: partitions are spread evenly, so the slowest decides";
    findings.push({ subject, state: "note", text, details: groupLines(accelerators) });
  }
  findings.push(...differingSettings(answered));
  if (findings.length > 0) return findings;
  return [{ subject, state: "good", text: "routers and workers agree" }];
}

/** Settings that must differ between routers. */
const OWN_SETTINGS: ReadonlySet<string> = new Set(["routerId", "replication"]);

function differingSettings(answered: readonly AnsweredRouter[]): Finding[] {
  const names = new Set(answered.flatMap(({ report }) => Object.keys(report.router.settings)));
  return [...names].toSorted().flatMap((name) => {
    if (OWN_SETTINGS.has(name)) return [];
    // A router of another release may not know the setting.
    const knowing = answered.filter(({ report }) => name in report.router.settings);
    const values = grouped(
      knowing.map(({ url, report }) => [JSON.stringify(report.router.settings[name]), url]),
    );
    if (values.size === 1) return [];
    const text = `${name} differs between routers: one may refuse or wait for what another answers`;
    return [{ subject: "settings", state: "note", text, details: groupLines(values) } as const];
  });
}

type Groups = ReadonlyMap<string, readonly string[]>;

function grouped(entries: readonly (readonly [value: string, name: string])[]): Groups {
  const groups = new Map<string, string[]>();
  for (const [value, name] of entries) {
    const group = groups.get(value);
    if (group === undefined) groups.set(value, [name]);
    else group.push(name);
  }
  return groups;
}

function groupLines(groups: Groups): string[] {
  return Array.from(groups, ([value, names]) => `${value}: ${listed(names)}`);
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_MAX).join(", ");
  return names.length > NAMES_MAX ? `${shown} and ${names.length - NAMES_MAX} more` : shown;
}
