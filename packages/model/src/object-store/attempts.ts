// Requests to Google and Azure, whose own libraries give up too early or wait too long. Each request is tried
// five times, with growing random pauses, and fails after 30 s in which no byte of a body has arrived. A body
// that breaks off, as on a connection that is cut, is a failed attempt too.

import type { Readable } from "node:stream";
import { type Clock, type Timer, WinnowError, excerpt } from "@winnow/core";

const ATTEMPTS_MAX = 5;
const FIRST_PAUSE_MS = 100;
const IDLE_MS_MAX = 30_000;
/** A body that comes slower than 4 MiB in this time would hold up whoever reads it for hours. */
const BODY_MS_MAX = 240_000;
/** Bytes of a thousand listed names, at most, with room to spare; and of what a store says of an error. */
const TEXT_BYTES_MAX = 2 ** 24;

/** Statuses after which another attempt may succeed. */
const PASSING = new Set([408, 429, 500, 502, 503, 504]);

/** A failed request. */
export interface Refusal {
  /** The HTTP status; `undefined`: there was no answer. */
  readonly status: number | undefined;
  /** The store's message, without anything secret. */
  readonly text: string;
  /** Winnow's message, for a failure that another attempt would meet again. */
  readonly known?: readonly [code: WinnowError["code"], text: string] | undefined;
}

/** What decides when the next attempt is made. */
export interface AttemptTimes {
  readonly clock: Clock;
  /** A number from 0 to 1. */
  readonly random: () => number;
}

/** A request that may be tried several times. */
export interface Attempted {
  /** What is read, for messages. */
  readonly what: string;
  /** Interprets an error. */
  readonly refusal: (error: unknown) => Refusal;
}

/** Calls until a call succeeds. @throws WinnowError saying why none did */
export async function inAttempts<T>(
  { clock, random }: AttemptTimes,
  { what, refusal }: Attempted,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (error instanceof WinnowError) throw error;
      const failure = lastFailure(what, refusal(error), tried);
      if (failure !== undefined) throw failure;
      const pauseMs = FIRST_PAUSE_MS * 2 ** (tried - 1) * (0.5 + random() / 2);
      await new Promise<void>((resolve) => void clock.setTimer(pauseMs, resolve));
    }
  }
}

/** The error of a request that is not tried again; `undefined` for one that is. */
function lastFailure(
  what: string,
  { status, text, known }: Refusal,
  tried: number,
): WinnowError | undefined {
  const begin = `Cannot read ${excerpt(what)}: `;
  if (known !== undefined) return new WinnowError(known[0], `${begin}${known[1]}`);
  const isPassing = status === undefined || PASSING.has(status);
  if (isPassing && tried < ATTEMPTS_MAX) return undefined;
  const times = `${tried} ${tried === 1 ? "time" : "times"}`;
  return new WinnowError("UNAVAILABLE", `${begin}${excerpt(text)}, tried ${times}`);
}

/** Whether a status sends the client elsewhere. */
export const isRedirect = (status: number): boolean => status >= 300 && status < 400;

/**
 * Why an answer that sends the client elsewhere is none: rows and credentials are for the store that was named, and the
 * other place might be any.
 */
export function redirectText(status: number, location = ""): string {
  const to = location === "" ? "elsewhere" : `to ${excerpt(originOf(location))}`;
  return `it answers ${status}, which leads ${to} and is not followed: name the store's own address`;
}

/** Without path and query, which may hold a signature. */
function originOf(location: string): string {
  if (!URL.canParse(location)) return "another path";
  const { protocol, host } = new URL(location);
  return `${protocol}//${host}`;
}

/** What a request tells of its answer, and can do. */
export interface AnswerWatch {
  readonly signal: AbortSignal;
  readonly abort: (reason: Error) => void;
  /** So many bytes of the answer's body have come in all. */
  readonly came: (bytes: number) => void;
}

/** The answer to a request, which is aborted if it is not complete within 30 s, or whoever asks aborts it. */
export async function inTime<T>(clock: Clock, ask: (watch: AnswerWatch) => Promise<T>): Promise<T> {
  const cut = new AbortController();
  let arrived = 0;
  const timer = clock.setTimer(IDLE_MS_MAX, () => {
    const seconds = IDLE_MS_MAX / 1000;
    const what = arrived === 0 ? `no answer for ${seconds} s` : lateText(arrived, seconds);
    cut.abort(new Error(what));
  });
  // A library may not notice while it reads a body.
  const aborted = new Promise<never>((_, reject) => {
    cut.signal.addEventListener("abort", () => reject(cut.signal.reason as Error));
  });
  try {
    const watch: AnswerWatch = {
      signal: cut.signal,
      abort: (reason) => cut.abort(reason),
      came: (bytes) => (arrived = bytes),
    };
    return await Promise.race([aborted, ask(watch)]);
  } finally {
    clock.clearTimer(timer);
  }
}

/** Why an answer that came in part is given up. */
function lateText(bytes: number, seconds: number): string {
  return `an answer is not complete within ${seconds} s, of which ${bytes} bytes came: the store, or the way to it, is too slow`;
}

/** Refuses an answer that does not end, and is no object. @throws WinnowError RESOURCE_EXHAUSTED */
export function assertShort(what: string, bytes: number): void {
  if (bytes <= TEXT_BYTES_MAX) return;
  const text = `an answer that is a part of a listing, or an error, has more than ${TEXT_BYTES_MAX} bytes`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${excerpt(what)}: ${text}`);
}

/**
 * The body of an answer that is no object, which libraries take in as a whole: up to 16 MiB, within 30 s.
 * @throws WinnowError RESOURCE_EXHAUSTED for a longer one, UNAVAILABLE for a slower one
 */
export async function* shortBody(
  clock: Clock,
  stream: Readable,
  what: string,
): AsyncGenerator<Uint8Array> {
  const late = `Cannot read ${excerpt(what)}: an answer has no end within ${IDLE_MS_MAX / 1000} s`;
  const timer = clock.setTimer(IDLE_MS_MAX, () => {
    stream.destroy(new WinnowError("UNAVAILABLE", late));
  });
  let bytes = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      assertShort(what, bytes);
      yield chunk;
    }
  } finally {
    clock.clearTimer(timer);
  }
}

/**
 * A body of known length. The stream is destroyed when no byte arrives for 30 s, or its end does not arrive for 4 min.
 * @throws Error if the body breaks off, stalls or has another length; WinnowError UNAVAILABLE if it is too slow
 */
export async function bodyOf(
  clock: Clock,
  stream: Readable,
  { what, length }: { readonly what: string; readonly length: number },
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let at = 0;
  const begunMs = clock.nowMs();
  let heardMs = clock.nowMs();
  let timer: Timer;
  const wait = (ms: number): void => {
    timer = clock.setTimer(ms, () => {
      const leftMs = heardMs + IDLE_MS_MAX - clock.nowMs();
      if (clock.nowMs() - begunMs >= BODY_MS_MAX) stream.destroy(tooSlow(what, { at, length }));
      else if (leftMs > 0) wait(leftMs);
      else stream.destroy(new Error(`no byte for ${IDLE_MS_MAX / 1000} s`));
    });
  };
  wait(IDLE_MS_MAX);
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) {
      heardMs = clock.nowMs();
      if (at + chunk.length > length) throw new Error(`more than ${length} bytes came`);
      bytes.set(chunk, at);
      at += chunk.length;
    }
  } finally {
    clock.clearTimer(timer!);
  }
  if (at < length) throw new Error(`of ${length} bytes that were asked for ${at} came`);
  return bytes;
}

/** Another attempt would be as slow. */
function tooSlow(
  what: string,
  { at, length }: { readonly at: number; readonly length: number },
): WinnowError {
  const text = `of ${length} bytes ${at} came within ${BODY_MS_MAX / 1000} s: the store, or the way to it, is too slow`;
  return new WinnowError("UNAVAILABLE", `Cannot read ${excerpt(what)}: ${text}`);
}

/**
 * The packages that read from Google and Azure, with their exact versions. They are optional peer
 * dependencies, which only those who need them install.
 * @internal tests compare it with package.json
 */
export const STORE_PACKAGES: Readonly<Record<string, string>> = {
  "@azure/identity": "4.13.1",
  "@azure/storage-blob": "12.32.0",
  "google-auth-library": "10.9.1",
};

/**
 * Loads the package that a store needs; `others` are needed with it.
 * @throws WinnowError FAILED_PRECONDITION saying how to install them
 */
export async function loadSdk(
  scheme: string,
  name: string,
  others: readonly string[] = [],
): Promise<unknown> {
  try {
    return (await import(name)) as unknown;
  } catch (cause) {
    const install = [name, ...others].map((each) => `${each}@${STORE_PACKAGES[each] ?? "latest"}`);
    const text = `Cannot read ${scheme}://: the package ${name} is not installed; install it where winnow is (npm install, with -g if winnow was): ${install.join(" ")}`;
    throw new WinnowError("FAILED_PRECONDITION", text, { cause });
  }
}
