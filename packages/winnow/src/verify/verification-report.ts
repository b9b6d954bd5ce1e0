// The result of a run: the verdict, the exit code, and the text for people.

import { NO_FIELDS, NO_VERDICTS } from "./verification-state.ts";
import type {
  FieldCounts,
  ModelProgress,
  ReportedDifference,
  VerdictCounts,
} from "./verification-state.ts";

/** A model of the run; `unchecked` says why it was not checked completely. */
export interface VerifiedModel {
  readonly model: string;
  readonly version: number | undefined;
  /** Number of requests that the run had to send. */
  readonly wanted: number;
  readonly progress: ModelProgress | undefined;
  readonly unchecked: string | undefined;
}

/** The result of a run. */
export interface VerificationReport {
  readonly url: string;
  /** Present if the server was asked over gRPC, too. */
  readonly grpc: string | undefined;
  readonly against: string | undefined;
  readonly seed: number;
  readonly tolerance: number;
  readonly serverTolerance: number;
  readonly verdict: "equal" | "different" | "unanswered" | "unchecked" | "interrupted";
  readonly models: readonly VerifiedModel[];
}

/**
 * 0: all is equal; 1: differences; 2: something was not checked; 3: answers are missing, those that came are equal;
 * 130: interrupted.
 */
export const EXIT_CODES: Readonly<Record<VerificationReport["verdict"], number>> = {
  equal: 0,
  different: 1,
  unchecked: 2,
  unanswered: 3,
  interrupted: 130,
};

/** The verdict over all models. */
export function verdictOf(
  models: readonly VerifiedModel[],
  isInterrupted: boolean,
): VerificationReport["verdict"] {
  const isDifferent = models.some(({ progress }) =>
    [progress?.files, progress?.grpc, progress?.servers].some((counts = NO_VERDICTS) => {
      return counts.different > 0;
    }),
  );
  if (isDifferent) return "different";
  if (isInterrupted) return "interrupted";
  if (models.some(({ progress }) => (progress?.missing.length ?? 0) > 0)) return "unanswered";
  return models.some(({ unchecked }) => unchecked !== undefined) ? "unchecked" : "equal";
}

/** The report for people. */
export function verificationText(report: VerificationReport): string {
  const { url, grpc, against, seed, models } = report;
  const second = grpc === undefined ? "" : ` and gRPC at ${grpc}`;
  const other = against === undefined ? "" : ` against ${against}`;
  const head = `${url}${second}${other}, seed ${seed}\n`;
  const blocks = models.map((each) => modelText(each, report));
  return `${[head, ...blocks].join("\n")}\n${verdictText(report)}\n`;
}

function modelText(verified: VerifiedModel, report: VerificationReport): string {
  const { model, version, progress, unchecked, wanted } = verified;
  const lines = [version === undefined ? model : `${model}, version ${version}`];
  if (progress !== undefined) {
    lines.push(...progressLines(progress, wanted));
    for (const each of progress.differences) lines.push(...differenceLines(each, report));
  }
  if (unchecked !== undefined) lines.push(`  unchecked: ${unchecked}`);
  return `${lines.join("\n")}\n`;
}

function progressLines(progress: ModelProgress, wanted: number): readonly string[] {
  const { next, missing, instances, fields, files, grpc, servers, missingText = "" } = progress;
  const answered = (next - missing.length).toLocaleString("en");
  const of = next < wanted ? ` of ${wanted.toLocaleString("en")}` : "";
  return [
    `  ${answered}${of} requests, ${instances.toLocaleString("en")} instances`,
    ...fieldLines(fields),
    ...(files === undefined ? [] : [`  by the files     ${countsText(files)}`]),
    ...(grpc === undefined ? [] : [`  over gRPC        ${countsText(grpc)}`]),
    ...(servers === undefined ? [] : [`  of the servers   ${countsText(servers)}`]),
    ...(missing.length === 0
      ? []
      : [`  missing          ${missing.length}, the last: ${missingText}`]),
  ];
}

/** How many requests had keys beside their instances; no line where none had. */
function fieldLines(fields: FieldCounts = NO_FIELDS): readonly string[] {
  const told = Object.entries(fields).filter(([, count]) => count > 0);
  const counts = told.map(([name, count]) => `${count.toLocaleString("en")} ${name}`);
  return counts.length === 0 ? [] : [`  asked with       ${counts.join(", ")}`];
}

function differenceLines(
  difference: ReportedDifference,
  { url, against = "" }: VerificationReport,
): readonly string[] {
  const { request, instance, place, expected, given, note, between, body } = difference;
  const where = place === undefined ? "" : `, place ${place}`;
  const spoken = between === "grpc" ? "given over gRPC" : "given";
  const [first, second] = between === "servers" ? [url, against] : ["expected", spoken];
  return [
    `  request ${request}, instance ${instance}${where}: ${body}`,
    `    ${first}: ${expected}`,
    `    ${second}: ${given}`,
    ...(note === undefined ? [] : [`    in the files: ${note}`]),
  ];
}

function countsText({ exact, close, reordered, refused, different }: VerdictCounts): string {
  const parts = [
    [exact, "exact"],
    [close, "within the tolerance"],
    [reordered, "with close scores in another order"],
    [refused, "refused alike"],
  ] as const;
  const told = parts.filter(([count]) => count > 0);
  return [...told, [different, "different"] as const]
    .map(([count, text]) => `${count.toLocaleString("en")} ${text}`)
    .join(", ");
}

function verdictText({ verdict, models, url }: VerificationReport): string {
  switch (verdict) {
    case "equal":
      return "equal";
    case "different":
      return "different";
    case "interrupted":
      return "interrupted: what was checked is equal";
    case "unanswered": {
      const missing = models.reduce(
        (sum, { progress }) => sum + (progress?.missing.length ?? 0),
        0,
      );
      return `unanswered: what was answered is equal, ${missing.toLocaleString("en")} answers are missing; see winnow status ${url}, and run again once it answers`;
    }
    case "unchecked": {
      const names = models.flatMap(({ model, unchecked }) =>
        unchecked === undefined ? [] : [model],
      );
      return `what was checked is equal; unchecked: ${names.join(", ")}`;
    }
  }
}
