// Where the lines of a job go: a file that appears when it is whole, or stdout. What makes a job refuse to begin is found
// before anything is written, and nothing that exists is touched without --overwrite or --resume.

import { type Stats, existsSync, renameSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import type { Writable } from "node:stream";
import { WinnowError, writeFailureText } from "@winnow/core";
import { type JobInput, STANDARD } from "./job-input.ts";
import { type JobIdentity, differencesOf, readJobState, writeJobState } from "./job-state.ts";
import { LineCount, PartFile, type WholeLines } from "./part-file.ts";

/** The output of a job under way. */
export interface JobOutput {
  /** What an earlier run has done. */
  readonly before: WholeLines;
  /** The version that answered an earlier run. */
  readonly pinned: number | undefined;
  /** Keeps which version answers. */
  pin(version: number): void;
  /** Adds whole lines. */
  add(text: string): Promise<void>;
  /** The output is whole. */
  finish(): Promise<void>;
  /** The job has ended early: gives the file that keeps its lines, if there is one. */
  leave(): Promise<string | undefined>;
}

/** How an output is begun. */
export interface OutputCommand {
  readonly output: string;
  readonly isResumed: boolean;
  readonly isOverwriting: boolean;
}

/** Opens an output. @throws WinnowError where that would lose or mix something, or the system refuses it */
export async function openOutput(
  command: OutputCommand,
  job: JobIdentity,
  { input, stdout }: { readonly input: JobInput; readonly stdout: Writable },
): Promise<JobOutput> {
  if (command.output === STANDARD) return new StandardOutput(stdout);
  const files = filesOf(command.output);
  checkApart(files, input);
  if (command.isResumed && existsSync(files.part)) return resumed(files, job);
  if (!command.isOverwriting) checkFree(files);
  try {
    rmSync(files.part, { force: true });
    writeJobState(files.state, { job, pinned: undefined });
    return new FileOutput(files, job, {
      part: await PartFile.create(files.part),
      pinned: undefined,
    });
  } catch (cause) {
    throw unwritable(files.part, cause);
  }
}

interface OutputFiles {
  readonly output: string;
  readonly part: string;
  readonly state: string;
}

function filesOf(output: string): OutputFiles {
  return { output, part: `${output}.part`, state: `${output}.part.json` };
}

const found = (name: string): Stats | undefined => statSync(name, { throwIfNoEntry: false });

/** @throws WinnowError INVALID_ARGUMENT where the job would write what it reads, or what is no file */
function checkApart({ output, part, state }: OutputFiles, { file }: JobInput): void {
  const same = [output, part, state].find((name) => {
    const { dev, ino } = found(name) ?? {};
    return file !== undefined && dev === file.dev && ino === file.ino;
  });
  if (same !== undefined) {
    throw new WinnowError("INVALID_ARGUMENT", `${same} is the input; name another output`);
  }
  if (found(output)?.isFile() !== false) return;
  const text = `${output} is no file; name a file that does not exist, or - for the standard output`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/** @throws WinnowError ALREADY_EXISTS */
function checkFree({ output, part }: OutputFiles): void {
  if (existsSync(part)) {
    const text = `${part} is the beginning of a job; go on with --resume, or begin again with --overwrite`;
    throw new WinnowError("ALREADY_EXISTS", text);
  }
  if (!existsSync(output)) return;
  const text = `${output} exists; name another output, or replace it with --overwrite`;
  throw new WinnowError("ALREADY_EXISTS", text);
}

async function resumed(files: OutputFiles, job: JobIdentity): Promise<JobOutput> {
  const state = readJobState(files.state);
  const differences = differencesOf(state.job, job);
  if (differences.length > 0) {
    const text = `${files.part} belongs to another job: ${differences.join("; ")}. Give the same as before, or begin again with --overwrite`;
    throw new WinnowError("FAILED_PRECONDITION", text);
  }
  try {
    const part = await PartFile.continue(files.part);
    return new FileOutput(files, job, { part, pinned: state.pinned });
  } catch (cause) {
    throw unwritable(files.part, cause);
  }
}

function unwritable(file: string, cause: unknown): WinnowError {
  const reason = writeFailureText(cause, { folder: path.dirname(file) });
  return new WinnowError("UNAVAILABLE", `Cannot write ${file}: ${reason}`, { cause });
}

class FileOutput implements JobOutput {
  readonly pinned: number | undefined;
  readonly #files: OutputFiles;
  readonly #job: JobIdentity;
  readonly #part: PartFile;
  #hasLines: boolean;

  constructor(
    files: OutputFiles,
    job: JobIdentity,
    { part, pinned }: { readonly part: PartFile; readonly pinned: number | undefined },
  ) {
    this.#files = files;
    this.#job = job;
    this.#part = part;
    this.pinned = pinned;
    this.#hasLines = part.before.lines > 0;
  }

  get before(): WholeLines {
    return this.#part.before;
  }

  pin(version: number): void {
    try {
      writeJobState(this.#files.state, { job: this.#job, pinned: version });
    } catch (cause) {
      throw unwritable(this.#files.state, cause);
    }
  }

  async add(text: string): Promise<void> {
    try {
      await this.#part.add(text);
      this.#hasLines = true;
    } catch (cause) {
      throw unwritable(this.#files.part, cause);
    }
  }

  async finish(): Promise<void> {
    const { output, part, state } = this.#files;
    try {
      await this.#part.close();
      renameSync(part, output);
    } catch (cause) {
      throw unwritable(output, cause);
    }
    rmSync(state, { force: true });
  }

  async leave(): Promise<string | undefined> {
    const { part, state } = this.#files;
    // The failure that ended the job is told; one of a full disk would be the same again.
    await this.#part.close().catch(() => undefined);
    if (this.#hasLines) return part;
    rmSync(part, { force: true });
    rmSync(state, { force: true });
    return undefined;
  }
}

class StandardOutput implements JobOutput {
  readonly before: WholeLines = new LineCount().whole;
  readonly pinned = undefined;
  readonly #stdout: Writable;

  constructor(stdout: Writable) {
    this.#stdout = stdout;
  }

  pin(): void {
    // A job on stdout cannot go on later.
  }

  add(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stdout.write(text, (cause) => {
        if (cause) reject(unwritable("the standard output", cause));
        else resolve();
      });
    });
  }

  finish(): Promise<void> {
    return Promise.resolve();
  }

  leave(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}
