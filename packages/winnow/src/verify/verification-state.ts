// What a run has checked so far, kept in a file if one is named, so that the next run continues there. The
// file is replaced as a whole, so an interrupted run leaves the state before or after a block of questions.

import { renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { WinnowError, excerpt, removeRemains, writeFailureText } from "@winnow/core";
import { readNamedFile } from "../process/named-file.ts";

/** What a run compares; another comparison needs another file. */
export interface RunIdentity {
  readonly url: string;
  /** Present if the server is asked over gRPC, too. */
  readonly grpc?: string | undefined;
  readonly against: string | undefined;
  readonly seed: number;
  readonly tolerance: number;
  readonly serverTolerance: number;
  /** Digest of the file of requests; absent if questions are made from the models. */
  readonly requests?: string | undefined;
}

/** Number of requests by result. */
export interface VerdictCounts {
  /** Equal to the bit. */
  readonly exact: number;
  /** Equal within the tolerance. */
  readonly close: number;
  /** Equal within the tolerance, with items of close scores in another order. */
  readonly reordered: number;
  /** Refused, as the model refuses them. */
  readonly refused: number;
  readonly different: number;
}

/** Keys beside the instances of a request, and the number of answered requests that had them. */
export interface FieldCounts {
  readonly k: number;
  readonly exclude: number;
  readonly include: number;
  readonly filter: number;
  readonly return: number;
}

/** One difference, as reports show it. */
export interface ReportedDifference {
  /** Number of the question. */
  readonly request: number;
  readonly between: "files" | "grpc" | "servers";
  readonly kind: string;
  readonly instance: number;
  readonly place?: number | undefined;
  readonly expected: string;
  readonly given: string;
  readonly note?: string | undefined;
  /** The request's body, shortened. */
  readonly body: string;
}

/** The progress of one model. */
export interface ModelProgress {
  readonly model: string;
  readonly version: number | undefined;
  /** Fingerprint of the content that was read; another content is checked from the beginning. */
  readonly fingerprint: string;
  /** All questions below this number were sent. */
  readonly next: number;
  /** Those of them without an answer, to be sent again. */
  readonly missing: readonly number[];
  /** Instances of all answered questions. */
  readonly instances: number;
  /** Requests with keys of Winnow's own; absent if the source of questions is a file. */
  readonly fields?: FieldCounts | undefined;
  /** Results against the files; absent without them. */
  readonly files: VerdictCounts | undefined;
  /** Results of the answers over gRPC; absent if only REST is asked. */
  readonly grpc: VerdictCounts | undefined;
  /** Results of the two servers; absent without a second one. */
  readonly servers: VerdictCounts | undefined;
  readonly differences: readonly ReportedDifference[];
  /** The text of the last missing answer. */
  readonly missingText: string | undefined;
}

/** All counts at zero. */
export const NO_VERDICTS: VerdictCounts = {
  exact: 0,
  close: 0,
  reordered: 0,
  refused: 0,
  different: 0,
};

/** All counts at zero. */
export const NO_FIELDS: FieldCounts = { k: 0, exclude: 0, include: 0, filter: 0, return: 0 };

const FORMAT = "winnow verify, state 1";

interface StateDocument {
  readonly format: string;
  readonly run: RunIdentity;
  readonly models: readonly ModelProgress[];
}

/** The progress of all models, in memory and in the file. */
export class VerificationState {
  readonly #file: string | undefined;
  readonly #run: RunIdentity;
  readonly #models = new Map<string, ModelProgress>();

  /** @throws WinnowError FAILED_PRECONDITION if the file belongs to another run, DATA_LOSS if it cannot be read */
  constructor(run: RunIdentity, file?: string) {
    this.#file = file;
    this.#run = run;
    const text = file === undefined ? undefined : textOf(file);
    if (text === undefined) return;
    const { run: before, models } = documentOf(text, file!);
    if (!isSameRun(before, run)) {
      const told = `${file} is the state of another run: ${runText(before)}, not ${runText(run)}`;
      throw new WinnowError("FAILED_PRECONDITION", `${told}; name another --state`);
    }
    for (const model of models) this.#models.set(model.model, model);
  }

  /** The progress of a model's content. */
  progressOf(model: string, fingerprint: string): ModelProgress | undefined {
    const known = this.#models.get(model);
    return known?.fingerprint === fingerprint ? known : undefined;
  }

  /** Keeps the progress of a model. @throws WinnowError if the file cannot be written */
  keep(progress: ModelProgress): void {
    this.#models.set(progress.model, progress);
    if (this.#file === undefined) return;
    const state = { format: FORMAT, run: this.#run, models: [...this.#models.values()] };
    const text = `${JSON.stringify(state)}\n`;
    const draft = `${this.#file}.draft`;
    try {
      writeFileSync(draft, text);
      renameSync(draft, this.#file);
    } catch (cause) {
      removeRemains(draft);
      const folder = path.dirname(draft);
      const reason = writeFailureText(cause, { folder, neededBytes: Buffer.byteLength(text) });
      const told = `Cannot write ${this.#file}: ${reason}; name another --state`;
      throw new WinnowError("UNAVAILABLE", told, { cause });
    }
  }
}

/** A state has counts, and some hundred questions that failed. */
const FILE_BYTES_MAX = 64 * 1024 * 1024;

function textOf(file: string): string | undefined {
  try {
    return readNamedFile(file, FILE_BYTES_MAX).toString("utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new WinnowError("DATA_LOSS", `Cannot read ${file}: ${reason}`, { cause });
  }
}

function documentOf(text: string, file: string): StateDocument {
  try {
    const document = JSON.parse(text) as StateDocument;
    const isOurs = document.format === FORMAT && Array.isArray(document.models);
    if (isOurs && document.models.every(isProgress)) return document;
  } catch {
    // The error follows.
  }
  const advice = "name another --state, or remove it";
  throw new WinnowError("DATA_LOSS", `${file} is no state of winnow verify; ${advice}`);
}

function isProgress(progress: ModelProgress): boolean {
  const { model, next, missing, instances } = progress;
  const areNumbers = [next, instances].every((value) => Number.isSafeInteger(value) && value >= 0);
  return typeof model === "string" && areNumbers && Array.isArray(missing);
}

function isSameRun(a: RunIdentity, b: RunIdentity): boolean {
  return (
    a.url === b.url &&
    a.grpc === b.grpc &&
    a.against === b.against &&
    a.seed === b.seed &&
    a.tolerance === b.tolerance &&
    a.serverTolerance === b.serverTolerance &&
    a.requests === b.requests
  );
}

function runText({ url, grpc, against, seed, tolerance }: RunIdentity): string {
  const second = grpc === undefined ? "" : ` and gRPC at ${excerpt(grpc)}`;
  const other = against === undefined ? "" : ` against ${excerpt(against)}`;
  return `${excerpt(url)}${second}${other}, seed ${seed}, tolerance ${tolerance}`;
}
