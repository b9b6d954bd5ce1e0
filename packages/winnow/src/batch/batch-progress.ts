// How far a job is, on stderr: a line that rewrites itself on a terminal; elsewhere a line each half minute, and one when
// a router stops answering.

import type { Clock } from "@winnow/core";
import { type ProgressOutput, byteText, compactCount } from "../progress-line.ts";
import { terminalLine } from "../terminal-text.ts";

/** What is known of a job under way. */
export interface JobProgress {
  /** Instances of this run that have their lines. */
  readonly done: number;
  readonly errors: number;
  readonly retries: number;
  /** Bytes of the input that are done, with those of earlier runs. */
  readonly endByte: number;
  /** Bytes of the input; `undefined` for a pipe. */
  readonly inputBytes: number | undefined;
}

const REDRAW_MS = 100;
const LINE_MS = 30_000;
const RETRY_LINE_MS = 5000;

/** Shows the progress of one job. */
export class BatchProgress {
  readonly #output: ProgressOutput;
  readonly #clock: Clock;
  readonly #startedMs: number;
  #firstByte: number | undefined;
  #shownMs: number;
  #toldRetryMs = -Infinity;
  #isDrawn = false;

  constructor(output: ProgressOutput, clock: Clock) {
    this.#output = output;
    this.#clock = clock;
    this.#startedMs = clock.nowMs();
    this.#shownMs = this.#startedMs;
  }

  /** Ms since the job began. */
  get elapsedMs(): number {
    return this.#clock.nowMs() - this.#startedMs;
  }

  /** Lines were written. */
  wrote(progress: JobProgress): void {
    this.#firstByte ??= progress.endByte;
    const nowMs = this.#clock.nowMs();
    const isTerminal = this.#output.isTTY === true;
    if (nowMs - this.#shownMs < (isTerminal ? REDRAW_MS : LINE_MS)) return;
    this.#shownMs = nowMs;
    const doneBytes = progress.endByte - this.#firstByte;
    this.#show(progressText(progress, { elapsedMs: this.elapsedMs, doneBytes }));
  }

  /** A request is sent again after a wait. */
  retries(reason: string, waitMs: number): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#toldRetryMs < RETRY_LINE_MS) return;
    this.#toldRetryMs = nowMs;
    this.#show(`asks again in ${(waitMs / 1000).toFixed(1)} s: ${terminalLine(reason)}`);
    if (this.#isDrawn) this.clear("\n");
  }

  /** Ends the line that rewrites itself, if there is one. */
  clear(end = "\r\u001b[2K"): void {
    if (this.#isDrawn) this.#output.write(end);
    this.#isDrawn = false;
  }

  #show(text: string): void {
    if (this.#output.isTTY !== true) {
      this.#output.write(`${text}\n`);
      return;
    }
    this.#isDrawn = true;
    this.#output.write(`\r\u001b[2K${text}`);
  }
}

/** A job's progress on one line. `doneBytes`: of the input, in the elapsed time. */
function progressText(
  { done, errors, retries, endByte, inputBytes }: JobProgress,
  { elapsedMs, doneBytes }: { readonly elapsedMs: number; readonly doneBytes: number },
): string {
  const share =
    inputBytes === undefined || inputBytes === 0
      ? byteText(endByte)
      : `${Math.floor((100 * endByte) / inputBytes)} %`;
  const rate = elapsedMs > 0 ? `${compactCount((1000 * done) / elapsedMs)}/s` : "";
  const leftMs =
    inputBytes === undefined || doneBytes <= 0
      ? 0
      : ((inputBytes - endByte) * elapsedMs) / doneBytes;
  const parts = [
    `${compactCount(done)} instances`,
    rate,
    leftMs < 1000 ? "" : `${durationText(leftMs)} left`,
    retries === 0 ? "" : `${retries} retries`,
    errors === 0 ? "" : `${errors} errors`,
  ];
  return `${share}  ${parts.filter((part) => part !== "").join(", ")}`;
}

function durationText(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${(minutes / 60).toFixed(1)} h`;
}
