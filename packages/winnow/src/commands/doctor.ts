// `winnow doctor`: what this machine has for Winnow, what it lacks, and how to get it; or, for running
// routers, what is wrong with their cluster. A finding is a fault only if it prevents something that was
// asked for: a GPU matters with `--accelerator gpu`, Redis with `--redis`, a busy port if the port was given.

import { readFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import process from "node:process";
import { getHeapStatistics } from "node:v8";
import { type SurveyedGpu, startGpuSurvey, surveyCpu } from "@winnow/accelerator";
import { probeRedis } from "@winnow/cluster";
import { hostPort, silentLogger, systemClock, toWinnowError } from "@winnow/core";
import { type AskedRouter, clusterFindings } from "../findings/cluster-findings.ts";
import { assertPortFree } from "../local-cluster/local-ports.ts";
import {
  type Finding,
  coresFinding,
  gpuFinding,
  nodeFinding,
} from "../findings/machine-findings.ts";
import { holdProcess, processEnvironment, wallClockMs } from "../process/process-settings.ts";
import { ProcessTls } from "../process/process-tls.ts";
import { byteText } from "../progress-line.ts";
import { type RedisFlags, openRedisAccess } from "../access/redis-access.ts";
import { askReportAndClock } from "../report/report-question.ts";
import { RestClient, type RestTrust } from "../access/rest-client.ts";

/** What to check. */
export interface DoctorCommand extends RedisFlags {
  readonly accelerator: "cpu" | "gpu" | "reference";
  readonly host: string;
  readonly port: number;
  readonly workerPort: number;
  /** Whether these ports must be free, because they were given and are not defaults. */
  readonly required: { readonly port: boolean; readonly workerPort: boolean };
}

/** The findings of a check. */
export interface Diagnosis {
  /** Whether there is no fault. */
  readonly isWell: boolean;
  readonly findings: readonly Finding[];
  /** The GPUs of this machine with features and limits, if they were looked for. */
  readonly gpus?: readonly SurveyedGpu[];
}

/** Checks a cluster through its routers. @throws WinnowError for a file of `trust` that cannot be read */
export async function diagnoseCluster(
  urls: readonly string[],
  trust: RestTrust,
): Promise<Diagnosis> {
  const client = new RestClient(trust);
  const release = holdProcess();
  try {
    const asked = await Promise.all(
      urls.map(async (url): Promise<AskedRouter> => {
        try {
          return { url, ...(await askReportAndClock(client, url, { clock: systemClock })) };
        } catch (error) {
          return { url, error: toWinnowError(error).message };
        }
      }),
    );
    const findings = clusterFindings(asked, wallClockMs());
    return { isWell: findings.every(({ state }) => state !== "fault"), findings };
  } finally {
    release();
  }
}

/** Checks this machine. */
export async function diagnose(command: DoctorCommand): Promise<Diagnosis> {
  const survey = await startGpuSurvey();
  const findings = [
    nodeFinding(process.versions.node),
    coresFinding(availableParallelism(), cgroupQuota()),
    memoryFinding(),
    cpuFinding(command.accelerator),
    gpuFinding(survey, command.accelerator),
    await redisFinding(command),
    await portFinding("REST port", "--port", { ...command, isRequired: command.required.port }),
    await portFinding("worker port", "--worker-port", {
      host: command.host,
      port: command.workerPort,
      isRequired: command.required.workerPort,
    }),
  ];
  const isWell = findings.every(({ state }) => state !== "fault");
  return { isWell, findings, gpus: survey.gpus };
}

/** The diagnosis for a person; `verdict`: the last line if there is no fault. */
export function diagnosisText({ findings, isWell }: Diagnosis, verdict: string): string {
  const width = Math.max(...findings.map(({ subject }) => subject.length));
  const lines = findings.flatMap(({ subject, state, text, details = [] }) => [
    `${state.padEnd(5)}  ${subject.padEnd(width)}  ${text}`,
    ...details.map((detail) => `${" ".repeat(width + 9)}${detail}`),
  ]);
  const end = isWell ? verdict : "Mend each fault, then ask again.";
  return [...lines, "", end].join("\n");
}

/** The processor quota of this process's cgroup (v2), in cores; `undefined` without one. */
function cgroupQuota(): number | undefined {
  try {
    const [quota, period] = readFileSync("/sys/fs/cgroup/cpu.max", "utf8").split(" ").map(Number);
    const cores = quota! / period!;
    return Number.isFinite(cores) ? cores : undefined;
  } catch {
    return undefined;
  }
}

function memoryFinding(): Finding {
  const limit = process.constrainedMemory();
  const total = totalmem();
  const isLimited = limit > 0 && limit < total;
  const bytes = isLimited ? limit : total;
  const whose = isLimited
    ? `limit of this process's cgroup; the machine has ${byteText(total)}`
    : "the machine's, no limit";
  const heap = byteText(getHeapStatistics().heap_size_limit);
  return {
    subject: "memory",
    state: "good",
    text: `${byteText(bytes)} (${whose})`,
    details: [
      `a worker uses up to ${byteText(Math.floor(0.7 * bytes))} for rows unless told otherwise (--memory-bytes)`,
      `JavaScript heap: ${heap} at most`,
    ],
  };
}

function cpuFinding(accelerator: DoctorCommand["accelerator"]): Finding {
  const { model, kernel, unavailable, origin, fault } = surveyCpu();
  const subject = "CPU scan";
  if (fault !== undefined) {
    const state = accelerator === "cpu" ? "note" : "good";
    const text = `${model}: plain JavaScript, many times slower. ${fault}`;
    return { subject, state, text };
  }
  const lacking =
    unavailable.length === 0
      ? "the best there is"
      : `this processor or kernel has no ${unavailable.join(", ")}`;
  return {
    subject,
    state: "good",
    text: `${model}: ${kernel} (${lacking}); native addon ${origin}`,
  };
}

async function redisFinding(flags: RedisFlags): Promise<Finding> {
  const subject = "Redis";
  const { redis: url } = flags;
  if (url === undefined || url === "") {
    return { subject, state: "note", text: "not asked for (--redis URL)" };
  }
  const certificates = new ProcessTls(processEnvironment(silentLogger));
  try {
    const { access, close } = await openRedisAccess(flags, certificates);
    close();
    return { subject, state: "good", text: `${await probeRedis(url, access)} answers` };
  } catch (error) {
    return { subject, state: "fault", text: toWinnowError(error).message };
  } finally {
    certificates.close();
  }
}

async function portFinding(
  subject: string,
  flag: string,
  asked: { readonly host: string; readonly port: number; readonly isRequired: boolean },
): Promise<Finding> {
  const { host, port, isRequired } = asked;
  if (port === 0) return { subject, state: "good", text: "any that is free" };
  try {
    await assertPortFree(port, host, flag);
    return { subject, state: "good", text: `${hostPort(host, port)} is free` };
  } catch (error) {
    const { message } = toWinnowError(error);
    return { subject, state: isRequired ? "fault" : "note", text: message };
  }
}
