// The progress of a long piece of work on stderr: one line that rewrites itself on a terminal, a line per
// tenth elsewhere, with rate and remaining time.

import type { Clock } from "@winnow/core";

/** Where progress is shown. */
export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

/** What is being counted. */
export interface ProgressSubject {
  readonly label: string;
  /** The unit of the counts: `rows`. */
  readonly unit: string;
}

/** Reports `done` of `total`; the last report (done = total, or `end` where the work is left) ends the line. */
export type Progress = (done: number, total: number, end?: "end") => void;

const REDRAW_MS = 100;

/** Starts a progress line. */
export function progressLine(
  subject: ProgressSubject,
  output: ProgressOutput,
  clock: Clock,
): Progress {
  const startedMs = clock.nowMs();
  let lastDrawnMs = -Infinity;
  let lastTenth = -1;
  return (done, total, end) => {
    const nowMs = clock.nowMs();
    const text = describe(subject, { done, total, elapsedMs: nowMs - startedMs });
    const isEnd = done >= total || end !== undefined;
    if (output.isTTY === true) {
      if (!isEnd && nowMs - lastDrawnMs < REDRAW_MS) return;
      lastDrawnMs = nowMs;
      output.write(`\r\u001b[2K${text}${isEnd ? "\n" : ""}`);
      return;
    }
    const tenth = total === 0 ? 10 : Math.floor((10 * done) / total);
    if (tenth === lastTenth) return;
    lastTenth = tenth;
    output.write(`${text}\n`);
  };
}

/** A line for a wait of which nobody knows how far it is. */
export interface WaitingLine {
  /** Says what is waited for, and since when. */
  show(what: string): void;
  /** Takes the line away, if one was shown. Whatever else rewrites the line does so as well. */
  clear(): void;
}

const SECONDS_SHOWN_MIN = 2;

/** Starts a line that rewrites itself on a terminal each second, once the wait is worth a word. */
export function waitingLine(label: string, output: ProgressOutput, clock: Clock): WaitingLine {
  const startedMs = clock.nowMs();
  let last = "";
  return {
    show: (what) => {
      const seconds = Math.floor((clock.nowMs() - startedMs) / 1000);
      const text = `${label}  ${what}  ${seconds} s`;
      if (seconds < SECONDS_SHOWN_MIN || text === last) return;
      last = text;
      output.write(`\r\u001b[2K${text}`);
    },
    clear: () => {
      if (last !== "") output.write("\r\u001b[2K");
      last = "";
    },
  };
}

interface ProgressState {
  readonly done: number;
  readonly total: number;
  readonly elapsedMs: number;
}

function describe(subject: ProgressSubject, { done, total, elapsedMs }: ProgressState): string {
  const percent = total === 0 ? 100 : Math.floor((100 * done) / total);
  const perSecond = elapsedMs > 0 ? (1000 * done) / elapsedMs : 0;
  const rate = perSecond > 0 ? `, ${compactCount(perSecond)} ${subject.unit}/s` : "";
  const leftSeconds = perSecond > 0 && done < total ? Math.ceil((total - done) / perSecond) : 0;
  const left = leftSeconds > 1 ? `, ${leftSeconds} s left` : "";
  return `${subject.label}  ${percent} %  ${compactCount(done)} of ${compactCount(total)} ${subject.unit}${rate}${left}`;
}

/** 1,234,567 as `1.2 M`: three digits are enough for a person watching. */
export function compactCount(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(1)} G`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} M`;
  if (count >= 1e4) return `${(count / 1e3).toFixed(0)} k`;
  return String(Math.round(count));
}

/** 1,234,567 bytes as `1.18 MiB`. */
export function byteText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 2 ** (10 * power);
  return `${power === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${units[power]}`;
}
