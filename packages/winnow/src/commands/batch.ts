// `winnow batch`: predictions for all lines of a file, by a running router. The course of a job:
//
//   input ──▶ lines ──▶ batches ──▶ asked, several at a time ──▶ in order ──▶ <output>.part ──▶ <output>
//
// Lines of the output stand for lines of the input one by one, so the number of whole lines is all that a job needs to go
// on after whatever ended it.

import { setMaxListeners } from "node:events";
import type { Writable } from "node:stream";
import { type Clock, WinnowError, excerpt } from "@winnow/core";
import { RestClient, type RestTrust } from "../access/rest-client.ts";
import { Answering } from "../batch/answering.ts";
import { BatchProgress } from "../batch/batch-progress.ts";
import type { BatchReport } from "../batch/batch-summary.ts";
import { beforeAbort } from "../batch/before-abort.ts";
import { linesOf } from "../batch/input-lines.ts";
import { batchesOf } from "../batch/instance-batches.ts";
import { type JobInput, openInput } from "../batch/job-input.ts";
import { type JobOutput, type OutputCommand, openOutput } from "../batch/job-output.ts";
import type { JobIdentity } from "../batch/job-state.ts";
import { type WrittenBatch, runOrdered } from "../batch/ordered-job.ts";
import { PinnedRouter } from "../batch/pinned-router.ts";
import { type PredictQuestion, askedMembers } from "../predict/predict-request.ts";
import type { ProgressOutput } from "../progress-line.ts";
import { checkRouterUrl } from "../report/report-question.ts";

/** What to answer, and how. */
export interface BatchCommand extends PredictQuestion, RestTrust, OutputCommand {
  /** A file of instances, one per line; `-`: stdin. */
  readonly input: string;
  /** Instances of a request. */
  readonly batchSize: number;
  /** Requests under way at a time. */
  readonly concurrency: number;
  /** Lines without a prediction after which the job stops. */
  readonly errorsMax: number;
  /** Longer lines of the input are errors. */
  readonly lineBytesMax: number;
  /** Ms without any answer after which the job stops. */
  readonly retryForMs: number;
  /** Ms to wait for one answer. */
  readonly timeoutMs: number;
}

/** What the command takes from its process. */
export interface BatchEnvironment {
  readonly clock: Clock;
  readonly random: () => number;
  readonly progress: ProgressOutput;
  readonly signal: AbortSignal;
  readonly stdin: AsyncIterable<Buffer>;
  readonly stdout: Writable;
}

/** Runs a job. @throws WinnowError where it cannot begin; what ends it later stands in the report */
export async function batch(
  command: BatchCommand,
  environment: BatchEnvironment,
): Promise<BatchReport> {
  checkCommand(command);
  // Each request under way listens.
  setMaxListeners(0, environment.signal);
  const asked = askedMembers(command).join(",");
  const input = await beforeAbort(openInput(command.input, environment.stdin), environment.signal);
  const { model, version } = command;
  const job: JobIdentity = { model, version, asked, input: input.identity };
  const output = await openOutput(command, job, { input, stdout: environment.stdout });
  return new BatchJob(command, environment, { input, output }).run();
}

/** @throws WinnowError INVALID_ARGUMENT for what no batch can be asked */
function checkCommand(command: BatchCommand): void {
  checkRouterUrl(command.url);
  const { isResumed, isOverwriting, exclude, include, filter } = command;
  if (isResumed && isOverwriting) {
    const text = "--resume goes on with what --overwrite removes; give one of them";
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const lists = { "--exclude": exclude, "--include": include };
  for (const [name, json] of Object.entries(lists)) {
    if (json !== undefined && isListOf(json, Array.isArray)) throw ofEach(name, json);
  }
  if (filter !== undefined && isListOf(filter, () => true)) throw ofEach("--filter", filter);
}

function isListOf(json: string, isEach: (value: unknown) => boolean): boolean {
  try {
    const value = JSON.parse(json) as unknown;
    return Array.isArray(value) && value.some(isEach);
  } catch {
    // What is no JSON is refused by name.
    return false;
  }
}

function ofEach(name: string, json: string): WinnowError {
  const text = `${name} ${excerpt(json)} has one entry per instance, but holds for all lines; write one for all`;
  return new WinnowError("INVALID_ARGUMENT", text);
}

interface JobFiles {
  readonly input: JobInput;
  readonly output: JobOutput;
}

class BatchJob {
  readonly #command: BatchCommand;
  readonly #signal: AbortSignal;
  readonly #files: JobFiles;
  readonly #router: PinnedRouter;
  readonly #answering: Answering;
  readonly #progress: BatchProgress;
  /** What else is under way ends with the job. */
  readonly #ended = new AbortController();
  #batchSize: number;
  #done = 0;
  #errors = 0;
  #retries = 0;

  constructor(command: BatchCommand, environment: BatchEnvironment, files: JobFiles) {
    const { clock, random, progress, signal } = environment;
    const { retryForMs, timeoutMs, batchSize } = command;
    const { output } = files;
    this.#command = command;
    this.#files = files;
    this.#signal = AbortSignal.any([signal, this.#ended.signal]);
    setMaxListeners(0, this.#signal);
    this.#batchSize = batchSize;
    this.#progress = new BatchProgress(progress, clock);
    this.#router = new PinnedRouter(
      { client: new RestClient(command), clock, timeoutMs, signal: this.#signal },
      { ...command, version: output.pinned ?? command.version },
      (version) => output.pin(version),
    );
    this.#answering = new Answering({
      ask: (instances) => this.#router.ask(instances),
      clock,
      random,
      signal: this.#signal,
      retryForMs,
      onRetry: (reason, waitMs) => {
        this.#retries += 1;
        this.#progress.retries(reason, waitMs);
      },
      onTooMany: (instances) => {
        this.#batchSize = Math.max(1, Math.min(this.#batchSize, Math.ceil(instances / 2)));
      },
    });
  }

  async run(): Promise<BatchReport> {
    const { input, output } = this.#files;
    const { lineBytesMax, concurrency } = this.#command;
    let failure: unknown;
    let part: string | undefined;
    try {
      await runOrdered({
        batches: batchesOf(linesOf(input.chunks, lineBytesMax), {
          size: () => this.#batchSize,
          lineBytesMax,
          skip: output.before.lines,
        }),
        answer: (instances) => this.#answering.answer(instances),
        concurrency: () => (this.#router.isSettled ? concurrency : 1),
        write: (written) => this.#write(written),
        signal: this.#signal,
      });
      await output.finish();
    } catch (error) {
      this.#ended.abort();
      failure = error;
      part = await output.leave();
    }
    this.#progress.clear();
    return { ...this.#report(), failure, part };
  }

  async #write({ text, lines, errors, lastError, endByte }: WrittenBatch): Promise<void> {
    await this.#files.output.add(text);
    this.#done += lines;
    this.#errors += errors;
    this.#progress.wrote({
      done: this.#done,
      errors: this.#errors,
      retries: this.#retries,
      endByte,
      inputBytes: this.#files.input.identity.bytes,
    });
    const { errorsMax } = this.#command;
    if (this.#errors <= errorsMax) return;
    const told = `${this.#errors} lines have no prediction, more than --max-errors ${errorsMax}. The last one: ${lastError}`;
    throw new WinnowError("FAILED_PRECONDITION", told);
  }

  #report(): Omit<BatchReport, "failure" | "part"> {
    const { before } = this.#files.output;
    return {
      lines: this.#done,
      linesBefore: before.lines,
      errors: this.#errors + before.errors,
      retries: this.#retries,
      degraded: this.#router.degraded,
      version: this.#router.version,
      elapsedMs: this.#progress.elapsedMs,
    };
  }
}
