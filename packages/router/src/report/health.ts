// The state of the cluster in one sentence: a pure function of what a router knows. Each finding says what is
// wrong and what helps. Events that affect no request (a version that loads, a worker that drains) are told
// as news and do not lower the state.

import type {
  Finding,
  Health,
  ModelReport,
  RouterReport,
  Severity,
  VersionReport,
  WorkerReport,
} from "./report-document.ts";

/** What health is judged from. */
export interface HealthFacts {
  readonly workers: readonly Pick<
    WorkerReport,
    "id" | "condition" | "heardAgoMs" | "isStraggler"
  >[];
  readonly models: readonly ModelReport[];
  readonly router: Pick<RouterReport, "membershipAgeMs" | "uptimeMs"> & {
    readonly traffic: Pick<RouterReport["traffic"], "requests" | "refusals">;
  };
}

/** A worker in drain answers pings until its process ends: one that has been silent for this long has ended. */
const DRAINED_MS = 10_000;
/** Findings of one report; the worst are kept. */
const FINDINGS_MAX = 32;
/** Names in one sentence, at most. */
const NAMES_MAX = 4;
/** The same value as in the alert on the membership's age. */
const MEMBERSHIP_AGE_MS_MAX = 30_000;
/** Fraction of the requests of a minute. */
const REFUSED_FRACTION_MAX = 0.01;

const RANK: Readonly<Record<Severity, number>> = { down: 0, degraded: 1, ok: 2 };

/** Judges the state of a cluster. */
export function healthOf(facts: HealthFacts): Health {
  const findings = [
    ...workerFindings(facts),
    ...modelFindings(facts),
    ...membershipFindings(facts),
    ...trafficFindings(facts),
  ].toSorted((a, b) => RANK[a.severity] - RANK[b.severity]);
  const worst = findings[0];
  if (worst === undefined || worst.severity === "ok") {
    return {
      severity: "ok",
      sentence: wellSentence(facts),
      remedy: "",
      findings: findings.slice(0, FINDINGS_MAX),
    };
  }
  const further = findings.filter(({ severity }) => severity !== "ok").length - 1;
  const more = further === 0 ? "" : ` (and ${further} more)`;
  return {
    severity: worst.severity,
    sentence: `${worst.text}${more}`,
    remedy: worst.remedy,
    findings: findings.slice(0, FINDINGS_MAX),
  };
}

function wellSentence({ workers, models }: HealthFacts): string {
  const { length } = models.filter((model) => !isUnloaded(model));
  const what = length === 1 ? "the model is" : `all ${length} models are`;
  return `${answeringText(workers)}, and ${what} fully replicated`;
}

/** Which workers answer: one that starts does not yet, and one in drain is about to leave. */
function answeringText(workers: HealthFacts["workers"]): string {
  const there = workers.filter(({ condition }) => condition !== "draining");
  if (there.length === 0) return "All workers are in drain";
  const starting = there.filter(({ condition }) => condition === "starting");
  if (starting.length === 0) {
    return there.length === 1 ? "The worker answers" : `All ${there.length} workers answer`;
  }
  const answering = there.length - starting.length;
  return `${answering} of ${there.length} workers answer (starting: ${namesOf(starting)})`;
}

function workerFindings({ workers, router }: HealthFacts): Finding[] {
  const of = (condition: WorkerReport["condition"]): typeof workers =>
    workers.filter((worker) => worker.condition === condition);
  const gone = of("unreachable");
  if (workers.length === 0 && router.membershipAgeMs === undefined) {
    const text = "No worker is known, because the membership has not been read yet";
    return [
      { severity: "down", text, remedy: "Look whether Redis runs and this router can reach it" },
    ];
  }
  if (workers.length === 0) {
    const remedy = "Start workers with the same --redis and --cluster, or name them in --members";
    return [{ severity: "down", text: "No worker is known", remedy }];
  }
  if (gone.length === workers.length) {
    const text =
      gone.length === 1
        ? `The only worker cannot be reached: ${namesOf(gone)}`
        : `None of ${gone.length} workers can be reached: ${namesOf(gone)}`;
    const remedy = "Start the workers, or look whether their ports are open to this router";
    return [{ severity: "down", text, remedy }];
  }
  const findings: Finding[] = [];
  if (gone.length > 0) {
    const heard = Math.min(...gone.map(({ heardAgoMs }) => heardAgoMs ?? Infinity));
    const since = heard === Infinity ? "" : `: last heard ${durationText(heard)} ago`;
    const text = `${workersText(gone)} cannot be reached${since}`;
    const remedy = `Look at the log of ${namesOf(gone)} and start it again; if it is gone for good, take it out of --members (Redis forgets it by itself)`;
    findings.push({ severity: "degraded", text, remedy });
  }
  const suspect = of("suspect");
  if (suspect.length > 0) {
    const says =
      suspect.length === 1
        ? "does not answer as it should and is"
        : "do not answer as they should and are";
    const text = `${workersText(suspect)} ${says} asked last`;
    const remedy = `Look at the log and the load of ${namesOf(suspect)}`;
    findings.push({ severity: "degraded", text, remedy });
  }
  findings.push(...drainFindings(of("draining")));
  const slow = workers.filter(({ isStraggler }) => isStraggler);
  if (slow.length > 0) {
    const text = `${workersText(slow)} ${slow.length === 1 ? "takes" : "take"} far longer than the others`;
    const remedy = `Look what else runs on the machine of ${namesOf(slow)}`;
    findings.push({ severity: "ok", text, remedy });
  }
  return findings;
}

/** A fixed list still names a worker that has drained and ended. */
function drainFindings(workers: HealthFacts["workers"]): Finding[] {
  const hasLeft = ({ heardAgoMs = Infinity }: HealthFacts["workers"][number]): boolean =>
    heardAgoMs > DRAINED_MS;
  const left = workers.filter(hasLeft);
  const leaving = workers.filter((worker) => !hasLeft(worker));
  const findings: Finding[] = [];
  if (leaving.length > 0) {
    findings.push({ severity: "ok", text: `${workersText(leaving)} in drain`, remedy: "" });
  }
  if (left.length > 0) {
    const verb = left.length === 1 ? "has" : "have";
    const text = `${workersText(left)} ${verb} left after a drain`;
    const remedy = `Start ${namesOf(left)} again, or take what is gone for good out of --members`;
    findings.push({ severity: "ok", text, remedy });
  }
  return findings;
}

function modelFindings({ models, workers }: HealthFacts): Finding[] {
  if (workers.every(({ condition }) => condition === "unreachable")) return [];
  if (models.length === 0) {
    const remedy =
      "Look whether the directory that --models names holds models, and at the workers' logs";
    return [{ severity: "down", text: "No model is known", remedy }];
  }
  const silent: Severity = models.some(({ answers }) => answers) ? "degraded" : "down";
  return models.flatMap((model) => [
    ...(model.answers ? replicationFindings(model) : [silentFinding(model, silent)]),
    ...versionFindings(model),
  ]);
}

/** The finding for a model that does not answer: it was taken out, unless nothing answers, or something is wrong. */
function silentFinding(model: ModelReport, severity: Severity): Finding {
  const { name, versions } = model;
  const isTakenOut = versions.every(({ isOver, state }) => isOver || state === "UNLOADING");
  if (severity === "down" || versions.length === 0 || !isTakenOut) {
    return silenceFinding(model, severity);
  }
  if (isUnloaded(model)) {
    const remedy =
      "If it should answer, put a version into its directory and the model into the list of models";
    return { severity: "ok", text: `${name} was unloaded`, remedy };
  }
  return { severity: "ok", text: `${name} is being unloaded`, remedy: "" };
}

/** Whether all versions of a model have ended: a router remembers such a model until it ends itself. */
function isUnloaded({ versions }: ModelReport): boolean {
  return versions.length > 0 && versions.every(({ isOver }) => isOver);
}

/** The finding for a model that does not answer requests without a version. */
function silenceFinding(model: ModelReport, severity: Severity): Finding {
  const { name, versions } = model;
  const living = versions.filter(({ isOver }) => !isOver);
  const wanted = living.find(({ isDefault }) => isDefault) ?? living[0];
  if (wanted === undefined) {
    const remedy = "Put a version into its directory, or take the model out of the configuration";
    return { severity, text: `${name} does not answer: it has no version`, remedy };
  }
  const named = `${name}/${wanted.version}`;
  if (wanted.partitions.lost > 0 && wanted.isDefault) {
    const all = allPartitions(wanted);
    const text = `${name} does not answer: ${wanted.partitions.lost} of ${all} partitions of ${named} have no replica`;
    const failure = failureTextOf(wanted);
    const remedy =
      failure === ""
        ? "Start the workers that are gone again, or wait until others have loaded what they held"
        : `${MEND_REMEDY}. Or start the workers that are gone again`;
    return { severity, text: `${text}${failure}`, remedy };
  }
  if (
    wanted.error !== undefined &&
    (wanted.state === "END" || wanted.rollout.failedOn.length > 0)
  ) {
    const text = `${name} does not answer: ${named} cannot be served: ${reasonOf(wanted.error.message, wanted.rollout.failedOn)}`;
    return { severity, text, remedy: failedRemedy(wanted.error) };
  }
  if (wanted.error !== undefined && wanted.rollout.progress >= 1) {
    const text = `${name} does not answer yet: ${reasonOf(wanted.error.message, [])}`;
    return { severity, text, remedy: "It answers as soon as what it waits for is there" };
  }
  if (wanted.rollout.progress >= 1) {
    const text = `${name} does not answer yet: ${named} is loaded, and this router prepares its program`;
    return { severity, text, remedy: "Wait a moment; the router's log says what fails" };
  }
  const text = `${name} does not answer yet: ${named} is loaded to ${percent(wanted.rollout.progress)}`;
  return { severity, text, remedy: "Wait until it is loaded" };
}

/** Files are not at fault where memory or a disk is short. */
function failedRemedy(error: VersionReport["error"]): string {
  return error?.code === "RESOURCE_EXHAUSTED"
    ? "Give it the room that it lacks, or add workers; they try again by themselves"
    : "Repair the version's files or export it again; winnow inspect DIR shows what is wrong with it";
}

function replicationFindings({ name, versions }: ModelReport): Finding[] {
  const serving = versions.find(({ isDefault }) => isDefault);
  if (serving === undefined || serving.partitions.underreplicated === 0) return [];
  const { replicasIntended: intended, version, partitions } = serving;
  const text = `${partitions.underreplicated} of ${allPartitions(serving)} partitions of ${name}/${version} have fewer than ${intended} replicas`;
  const failure = failureTextOf(serving);
  const remedy =
    failure === ""
      ? "Wait until the workers have loaded them, start lost workers again, or give the workers more memory"
      : MEND_REMEDY;
  return [{ severity: "degraded", text: `${text}${failure}`, remedy }];
}

const MEND_REMEDY = "Mend what that worker names; it tries again by itself";

/** Why a worker cannot load partitions that lack a replica. Other codes: a note on a version, partitions that are missing. */
function failureTextOf({ error }: VersionReport): string {
  if (error === undefined || error.code === "OK" || error.code === "UNAVAILABLE") return "";
  return `: ${error.message}`;
}

/** Findings on versions beside the default one: those that failed, those that are loading, and labels that wait. */
function versionFindings(model: ModelReport): Finding[] {
  const { name, answers, versions, waitingLabels } = model;
  if (!answers) return [];
  const findings = versions.flatMap((version) => versionFinding(model, version));
  const labels = Object.entries(waitingLabels).map(
    ([label, version]) => `${label} (version ${version})`,
  );
  if (labels.length === 0) return findings;
  const text = `Labels of ${name} wait for a version that is not available: ${listed(labels)}`;
  const remedy = "Publish the version, or change the label";
  return [...findings, { severity: "degraded", text, remedy }];
}

function versionFinding(model: ModelReport, version: VersionReport): Finding[] {
  return version.isOver
    ? []
    : [...courseFinding(model, version), ...extraFinding(model.name, version)];
}

/** A replica that nobody misses is news: but the same damaged file is read when that worker is given more. */
function extraFinding(name: string, { version, extraFailure }: VersionReport): Finding[] {
  if (extraFailure === undefined) return [];
  const text = `A replica of ${name}/${version} beyond the intended ones is not loaded: ${extraFailure}`;
  return [{ severity: "ok", text, remedy: MEND_REMEDY }];
}

/** A version that failed, or that is on its way. */
function courseFinding(model: ModelReport, version: VersionReport): Finding[] {
  const { defaultVersion } = model;
  const { state, error, rollout } = version;
  if (rollout.failedOn.length > 0 || (state === "END" && error !== undefined)) {
    return [failureFinding(model, version)];
  }
  if (version.isDefault) return replacementFindings(model.name, version);
  const isNewer = defaultVersion !== undefined && version.version > defaultVersion;
  if (!isNewer || state === "UNLOADING") return [];
  const { waitingFor, progress } = rollout;
  const waits = waitingFor.length === 0 ? "" : `, waiting for ${listed(waitingFor)}`;
  const why = error === undefined ? "" : `: ${error.message}`;
  const text = `${model.name}/${version.version} is on its way: ${percent(progress)} loaded${waits}${why}`;
  return [{ severity: "ok", text, remedy: "" }];
}

/** A version that answers whole while a worker fails with it: what it answers is no longer what its directory holds. */
function replacementFindings(name: string, served: VersionReport): Finding[] {
  const { version, state, partitions } = served;
  const failure = failureTextOf(served);
  if (state !== "AVAILABLE" || partitions.underreplicated > 0 || failure === "") return [];
  const text = `${name}/${version} goes on with what it held before: its directory was changed, and cannot be served as it is now`;
  return [{ severity: "degraded", text: `${text}${failure}`, remedy: failedRemedy(served.error) }];
}

function failureFinding(
  { name, defaultVersion }: ModelReport,
  { version, isDefault, error, rollout: { failedOn } }: VersionReport,
): Finding {
  const where = failedOn.length === 0 ? "" : ` on ${listed(failedOn)}`;
  const isOther = defaultVersion !== undefined && !isDefault;
  const kept = isOther ? `; version ${defaultVersion} goes on answering` : "";
  const why = error === undefined ? "" : `: ${reasonOf(error.message, failedOn)}`;
  const text = `${name}/${version} failed${where}${kept}${why}`;
  return { severity: "degraded", text, remedy: failedRemedy(error) };
}

/** The message of a failure, without the names of workers that it begins with: `w0 (and 2 more): …`. */
export function reasonOf(message: string, failedOn: readonly string[]): string {
  const worker = failedOn.find(
    (id) => message.startsWith(`${id}: `) || message.startsWith(`${id} (and `),
  );
  return worker === undefined ? message : message.slice(message.indexOf(": ", worker.length) + 2);
}

function membershipFindings({ router, workers }: HealthFacts): Finding[] {
  const membershipAgeMs = router.membershipAgeMs ?? router.uptimeMs;
  if (membershipAgeMs <= MEMBERSHIP_AGE_MS_MAX) return [];
  // Without any worker the first finding says so already.
  if (workers.length === 0 && router.membershipAgeMs === undefined) return [];
  const isAnswering = workers.some(({ condition }) => condition !== "unreachable");
  const meanwhile = isAnswering ? "; requests are answered by the workers that are known" : "";
  const text = `The membership has not been read for ${durationText(membershipAgeMs)}${meanwhile}`;
  const remedy = "Look whether Redis runs and can be reached; workers that start now are not found";
  return [{ severity: "degraded", text, remedy }];
}

function trafficFindings({ router: { traffic } }: HealthFacts): Finding[] {
  const refused = Object.values(traffic.refusals).reduce((sum, count) => sum + count, 0);
  if (refused === 0 || refused / Math.max(1, traffic.requests) <= REFUSED_FRACTION_MAX) return [];
  const text = `${refused} of ${traffic.requests} requests of the last minute were refused: the cluster is asked more than it can answer`;
  return [
    { severity: "degraded", text, remedy: "Add workers or replicas, or send fewer requests" },
  ];
}

function allPartitions({ partitions }: Pick<VersionReport, "partitions">): number {
  return partitions.covered + partitions.underreplicated + partitions.lost;
}

function workersText(workers: readonly { readonly id: string }[]): string {
  return `${workers.length === 1 ? "Worker" : `${workers.length} workers:`} ${namesOf(workers)}`;
}

function namesOf(workers: readonly { readonly id: string }[]): string {
  return listed(workers.map(({ id }) => id));
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_MAX).join(", ");
  return names.length > NAMES_MAX ? `${shown} and ${names.length - NAMES_MAX} more` : shown;
}

function percent(fraction: number): string {
  return `${Math.floor(fraction * 100)} %`;
}

/** A duration for people: `850 ms`, `12 s`, `5 min`, `3 h`. */
function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return `${Math.round(ms / 3_600_000)} h`;
}
