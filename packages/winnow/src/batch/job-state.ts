// What a job is, kept beside its unfinished output, so that another job does not go on with it: lines of two models,
// versions, conditions or inputs would stand in one file.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { WinnowError, excerpt } from "@winnow/core";

/** What a job answers. */
export interface JobIdentity {
  readonly model: string;
  /** The version that `--model-version` names. */
  readonly version: number | undefined;
  /** What is asked beside the instances, as members of the body. */
  readonly asked: string;
  readonly input: InputIdentity;
}

/** What an input is, without reading all of it. */
export interface InputIdentity {
  /** `undefined` for a pipe. */
  readonly bytes: number | undefined;
  /** SHA-256 of its first 64 KiB. */
  readonly digest: string;
}

/** The document. */
export interface JobState {
  readonly job: JobIdentity;
  /** The version that has answered; `undefined` before the first answer. */
  readonly pinned: number | undefined;
}

const FORMAT = "winnow batch, state 1";

/** Where two jobs differ, each as one phrase; empty for the same job. */
export function differencesOf(before: JobIdentity, now: JobIdentity): readonly string[] {
  const pairs: readonly (readonly [string, Told, Told])[] = [
    ["model", before.model, now.model],
    ["--model-version", before.version, now.version],
    ["what is asked of each instance", before.asked, now.asked],
    ["bytes of the input", before.input.bytes, now.input.bytes],
    ["beginning of the input (SHA-256)", before.input.digest, now.input.digest],
  ];
  return pairs
    .filter(([, was, is]) => was !== is)
    .map(([what, was, is]) => `${what}: ${shown(was)} before, ${shown(is)} now`);
}

type Told = string | number | undefined;

function shown(value: Told): string {
  if (value === undefined) return "not given";
  return value === "" ? "nothing more" : excerpt(String(value));
}

/** Replaces the document as a whole. @throws Error of the system */
export function writeJobState(file: string, state: JobState): void {
  const draft = `${file}.draft`;
  writeFileSync(draft, `${JSON.stringify({ format: FORMAT, ...state })}\n`);
  renameSync(draft, file);
}

/** Reads the document. @throws WinnowError FAILED_PRECONDITION where there is none that says which job this is */
export function readJobState(file: string): JobState {
  try {
    const document = JSON.parse(readFileSync(file, "utf8")) as JobState & { format?: unknown };
    if (document.format === FORMAT && typeof document.job.input.digest === "string") {
      return { job: document.job, pinned: document.pinned };
    }
  } catch {
    // The error follows.
  }
  const text = `${file} does not say which job was begun; begin again with --overwrite`;
  throw new WinnowError("FAILED_PRECONDITION", text);
}
