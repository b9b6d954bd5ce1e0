// `winnow top`: the report of the cluster in a terminal, drawn anew each second, on the terminal's second
// screen, so that what was there before comes back. A router that does not answer is named above what it
// told last.
//
//   ask ─▶ draw ─▶ wait a second ─▶ ask …        q, Ctrl-C or a signal: the first screen again

import type { ClusterReport } from "@winnow/router";
import { type Clock, WinnowError, toWinnowError } from "@winnow/core";
import { askReport } from "../report/report-question.ts";
import { type Line, liveLines } from "../report/report-lines.ts";
import { paint } from "../report/paint.ts";
import type { RestClient } from "../access/rest-client.ts";
import { terminalLine } from "../terminal-text.ts";

/**
 * Keys, as a terminal gives them.
 *
 * @internal tests call it
 */
export interface TopInput {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
  on(event: "data", listener: (data: Buffer | string) => void): unknown;
  off(event: "data", listener: (data: Buffer | string) => void): unknown;
  resume(): unknown;
  pause(): unknown;
}

/** A terminal. */
interface TopOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

/** What is shown where. */
export interface TopParts {
  readonly client: RestClient;
  readonly url: string;
  readonly clock: Clock;
  readonly input: TopInput;
  readonly output: TopOutput;
  /** Ends it as a key does. */
  readonly signal?: AbortSignal;
}

const DRAW_MS = 1000;
const COLUMNS = 80;
const ROWS = 24;
const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";
const CLEAR_LINE = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
/** Ctrl-C, Ctrl-D, q. */
const ENDS = ["\u0003", "\u0004", "q", "Q"];

/** What was heard of the router. */
interface TopState {
  readonly url: string;
  readonly report: ClusterReport | undefined;
  /** Why it has not answered, and for how long. */
  readonly failure: { readonly error: WinnowError; readonly sinceMs: number } | undefined;
}

/**
 * A screen of so many columns and rows; longer lines are cut, lines below are left out and counted.
 *
 * @internal tests call it
 */
export function topScreen(
  { url, report, failure }: TopState,
  { columns, rows }: { readonly columns: number; readonly rows: number },
): Line[] {
  const lines: Line[] = [
    { text: `winnow top  ${url}  q ends`, tone: "dim" },
    ...(failure === undefined ? [] : failureLines(failure)),
    ...(report === undefined ? [] : liveLines(report)),
  ];
  const room = Math.max(1, rows - 1);
  const shown = lines.length <= room ? lines : lines.slice(0, room - 1);
  const more: Line[] =
    shown.length === lines.length
      ? []
      : [
          {
            text: `… ${lines.length - shown.length} more lines: a taller terminal shows them`,
            tone: "dim",
          },
        ];
  return [...shown, ...more].map(({ text, tone }) => ({
    text: cut(terminalLine(text), columns),
    tone,
  }));
}

function failureLines({ error, sinceMs }: NonNullable<TopState["failure"]>): Line[] {
  const since = `${Math.round(sinceMs / 1000)} s`;
  return [
    { text: `The router has not answered for ${since}: ${error.message}`, tone: "bad" },
    { text: "Below is its last report.", tone: "dim" },
  ];
}

function cut(text: string, columns: number): string {
  const characters = Array.from(text);
  return characters.length <= columns ? text : `${characters.slice(0, columns - 1).join("")}…`;
}

/** Shows the report until a key, or the signal, ends it. @throws WinnowError FAILED_PRECONDITION without a terminal */
export async function runTop(parts: TopParts): Promise<void> {
  const { input, output, signal } = parts;
  if (output.isTTY !== true) {
    const text = "winnow top needs a terminal; winnow status prints the same once";
    throw new WinnowError("FAILED_PRECONDITION", text);
  }
  const ended = new AbortController();
  const end = (): void => ended.abort();
  const onData = (data: Buffer | string): void => {
    const keys = String(data);
    if (ENDS.some((each) => keys.includes(each))) end();
  };
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted === true) end();
  if (input.isTTY === true) input.setRawMode?.(true);
  input.on("data", onData);
  input.resume();
  output.write(ENTER);
  try {
    await drawUntil(parts, ended.signal);
  } finally {
    output.write(LEAVE);
    input.off("data", onData);
    if (input.isTTY === true) input.setRawMode?.(false);
    input.pause();
    signal?.removeEventListener("abort", end);
  }
}

async function drawUntil(
  { client, url, clock, output }: TopParts,
  signal: AbortSignal,
): Promise<void> {
  let report: ClusterReport | undefined;
  let failure: TopState["failure"];
  let answeredAtMs = clock.nowMs();
  while (!signal.aborted) {
    try {
      report = await askReport(client, url, { clock, signal });
      failure = undefined;
      answeredAtMs = clock.nowMs();
    } catch (error) {
      failure = { error: toWinnowError(error), sinceMs: clock.nowMs() - answeredAtMs };
    }
    if (signal.aborted) return;
    const { columns = COLUMNS, rows = ROWS } = output;
    const lines = topScreen({ url, report, failure }, { columns, rows });
    const drawn = lines.map((line) => `${paint(line)}${CLEAR_LINE}`).join("\r\n");
    output.write(`${HOME}${drawn}${CLEAR_BELOW}`);
    await pause(clock, signal);
  }
}

/** A second, or until the signal; never rejects. */
function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(DRAW_MS, () => {
      signal.removeEventListener("abort", end);
      resolve();
    });
    const end = (): void => {
      clock.clearTimer(timer);
      resolve();
    };
    signal.addEventListener("abort", end, { once: true });
  });
}
