// Asks a router for its report of the cluster.

import type { ClusterReport } from "@winnow/router";
import type { Clock } from "@winnow/core";
import { WinnowError, excerpt } from "@winnow/core";
import { timeMsOf } from "../process/process-settings.ts";
import type { RestAnswer, RestClient } from "../access/rest-client.ts";
import { liveLines, statusLines } from "./report-lines.ts";

const ANSWER_MS_MAX = 5000;

/** How long to wait for an answer: five seconds, or until the signal. */
export interface ReportWait {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Requests the report once. @throws WinnowError UNAVAILABLE if nothing answers in five seconds,
 * UNAUTHENTICATED and PERMISSION_DENIED for a wrong key, UNIMPLEMENTED for a server that has no report
 */
export async function askReport(
  client: RestClient,
  url: string,
  wait: ReportWait,
): Promise<ClusterReport> {
  return (await askReportAndClock(client, url, wait)).report;
}

/** The same, with the time of the answer, in ms since 1970, to the second. @throws WinnowError likewise */
export async function askReportAndClock(
  client: RestClient,
  url: string,
  { clock, signal }: ReportWait,
): Promise<{ readonly report: ClusterReport; readonly clockMs: number | undefined }> {
  const answer = await answerOf(client, url, { clock, signal });
  const { status, text } = answer;
  if (status === 200) {
    return { report: readReport(text, url), clockMs: timeMsOf(answer.header("date") ?? "") };
  }
  if (status === 401 || status === 403) {
    const code = status === 401 ? "UNAUTHENTICATED" : "PERMISSION_DENIED";
    const advice = "name a file with a key of the role status (--key-file)";
    throw new WinnowError(code, `${url} does not tell: ${errorText(text)}; ${advice}`);
  }
  throw notARouter(url, `it answered ${status}`);
}

/** Refuses what is no URL of a router, before anything is sent. @throws WinnowError INVALID_ARGUMENT */
export function checkRouterUrl(url: string): void {
  if (/^https?:\/\/[^/\s]+(\/[^\s?#]*)?$/.test(url)) return;
  const text = `${excerpt(url)} is no router's address; write for example http://127.0.0.1:8501`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

async function answerOf(
  client: RestClient,
  url: string,
  { clock, signal }: ReportWait,
): Promise<RestAnswer> {
  checkRouterUrl(url);
  const at = `${url.replace(/\/+$/, "")}/v1/cluster`;
  try {
    return await client.askWithin(at, { signal }, { clock, timeoutMs: ANSWER_MS_MAX });
  } catch (cause) {
    const { code = "", message } = cause as NodeJS.ErrnoException;
    if (/CERT|SELF_SIGNED|UNABLE_TO/.test(code)) {
      const text = `The certificate of ${url} is not believed: ${message}; name its authority with --ca`;
      throw new WinnowError("UNAUTHENTICATED", text, { cause });
    }
    const why = reasonOf(code, message);
    const text = `No router answers at ${url}: ${why}; is it running, and is this its REST port?`;
    throw new WinnowError("UNAVAILABLE", text, { cause });
  }
}

/** What a connection failed of; OpenSSL and the HTTP parser say it in words for programmers. */
function reasonOf(code: string, message: string): string {
  if (code === "EPROTO") return "what listens there speaks no TLS: write http://";
  if (code.startsWith("HPE_")) return "what listens there speaks no HTTP/1.1";
  if (code === "ECONNRESET") return `${message}: does it want TLS, https://?`;
  return message === "" ? code : message;
}

function readReport(text: string, url: string): ClusterReport {
  let report: Partial<ClusterReport> | null = null;
  try {
    report = JSON.parse(text) as Partial<ClusterReport> | null;
  } catch {
    // The error follows.
  }
  if (!isReport(report)) throw notARouter(url, "its answer is no report");
  if (canBeShown(report)) return report;
  throw notARouter(url, "its report lacks what this command shows; is it of another release?");
}

/** Whether no part is missing within the parts: what is shown names every field that commands read unasked. */
function canBeShown(report: ClusterReport): boolean {
  try {
    return [...statusLines(report), ...liveLines(report)].length > 0;
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) return false;
    throw error;
  }
}

/** Whether the parts of a report are there: another kind of server may answer anything. */
function isReport(told: Partial<ClusterReport> | null): told is ClusterReport {
  const { health, router, workers, models, events, slowRequests } = told ?? {};
  const isWhole = typeof router?.traffic === "object" && Array.isArray(health?.findings);
  return isWhole && [workers, models, events, slowRequests].every(Array.isArray);
}

function notARouter(url: string, why: string): WinnowError {
  const text = `${url} is not a Winnow router that reports on its cluster: ${why}`;
  return new WinnowError("UNIMPLEMENTED", text);
}

function errorText(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return excerpt(error);
  } catch {
    // Not JSON, for example a proxy's page.
  }
  return excerpt(text);
}
