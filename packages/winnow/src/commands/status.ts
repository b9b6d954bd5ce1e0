// `winnow status`: what a router reports about its cluster, once, and an exit code for scripts.

import type { ClusterReport, Severity } from "@winnow/router";
import { type WinnowError, systemClock, toWinnowError } from "@winnow/core";
import { holdProcess } from "../process/process-settings.ts";
import { askReport } from "../report/report-question.ts";
import { type Line, statusLines } from "../report/report-lines.ts";
import { RestClient, type RestTrust } from "../access/rest-client.ts";

/** The router to ask, and how to reach it. */
export interface StatusCommand extends RestTrust {
  readonly url: string;
}

/** The exit code of each state, as monitoring tools have them; 2 also where nobody answers. */
export const EXIT_CODES: Readonly<Record<Severity, number>> = { ok: 0, degraded: 1, down: 2 };

/** The report, or why there is none. */
export async function clusterReport(
  command: StatusCommand,
): Promise<ClusterReport | { readonly error: WinnowError }> {
  const release = holdProcess();
  try {
    const client = new RestClient(command);
    return await askReport(client, command.url, { clock: systemClock });
  } catch (error) {
    return { error: toWinnowError(error) };
  } finally {
    release();
  }
}

/** The lines of a report. */
export function statusText(report: ClusterReport, paint: (line: Line) => string): string {
  return `${statusLines(report).map(paint).join("\n")}\n`;
}
