// Threads that parse large bodies, so that the event loop never stands still for one (`bounded-threads.ts`). A body
// is gathered in slices once a thread is free. Waiting bodies count against the memory of all bodies, through
// their `RequestBody`.

import { Worker } from "node:worker_threads";
import { WinnowError, entryBeside } from "@winnow/core";
import type { Clock, Signal } from "@winnow/core";
import type { BodyContent, BodyLimits, BodyQuestion } from "./body-reading.ts";
import { unpackContent } from "./parser-messages.ts";
import type { ParserAnswer, ParserRequest, ParserSettings } from "./parser-messages.ts";
import { gatherBytes } from "../body/request-body.ts";
import type { RequestBody } from "../body/request-body.ts";
import { BoundedThreads } from "../../threads/bounded-threads.ts";

/** Limits of the parser threads. */
export interface ParserThreadLimits extends BodyLimits {
  readonly parserThreadsMax: number;
  readonly parserQueueMax: number;
  readonly bodyBytesMax: number;
}

/** What the parser threads need. */
export interface ParserThreadParts {
  readonly clock: Clock;
  readonly limits: ParserThreadLimits;
  /** Called when a body was refused because too many wait. */
  readonly onQueueFull: () => void;
  /** Starts a thread. Default: `startParserThread`. */
  readonly start?: StartParserThread | undefined;
}

/** Starts one thread. */
export type StartParserThread = (settings: ParserSettings) => Worker;

/** A body of at least this size is a giant; one thread is left to smaller bodies. */
const GIANT_BYTES = 4 * 1024 * 1024;
/** Bytes per value while a body is read: its entry in `JsonReader`, and its place in a tensor. */
const VALUE_BYTES = 32;
/** Characters of the shortest value with its separator: `,1`. */
const VALUE_CHARACTERS_MIN = 2;

/** The threads, and the bodies that wait for one. */
export class ParserThreads {
  readonly #limits: ParserThreadLimits;
  readonly #threads: BoundedThreads<ParserRequest, ParserAnswer>;

  constructor({ clock, limits, onQueueFull, start = startParserThread }: ParserThreadParts) {
    this.#limits = limits;
    const { parserThreadsMax: threadsMax, parserQueueMax: queueMax } = limits;
    this.#threads = new BoundedThreads({
      clock,
      threadsMax,
      queueMax,
      start: () => start({ limits: bodyLimitsOf(limits) }),
      full: () => {
        onQueueFull();
        return new WinnowError(
          "UNAVAILABLE",
          `${queueMax} large bodies wait to be read already; try again`,
        );
      },
      does: "parses large bodies",
    });
  }

  /** Bytes that parsing takes at present, in addition to the bodies. */
  get bytes(): number {
    return this.#threads.bytes;
  }

  /** Bytes that parsing may take; at least one thread is left to bodies that are not giants. */
  get bytesMax(): number {
    const { bodyBytesMax, parserThreadsMax } = this.#limits;
    const { giantsMax } = this.#threads;
    const giants = giantsMax * this.#parsingBytes(bodyBytesMax);
    const others = parserThreadsMax - giantsMax;
    return giants + others * this.#parsingBytes(Math.min(GIANT_BYTES, bodyBytesMax));
  }

  /** Bodies that wait for a thread. */
  get waiting(): number {
    return this.#threads.waiting;
  }

  /** Threads that are there. */
  get threads(): number {
    return this.#threads.threads;
  }

  /**
   * Reads a body, whose bytes are given up. @throws as `readContent`; WinnowError UNAVAILABLE if too many
   * wait; the signal's reason when it is aborted while the body waits
   */
  async read(body: RequestBody, question: BodyQuestion, signal: Signal): Promise<BodyContent> {
    const answer = await this.#threads.run({
      signal,
      isGiant: body.bytes > GIANT_BYTES,
      bytes: this.#parsingBytes(body.bytes),
      prepare: async () => {
        const bytes = await gatherBytes(body);
        return { request: { question, bytes }, transfer: [bytes.buffer] };
      },
    });
    return contentOf(answer);
  }

  /** Ends all threads; bodies being parsed are lost. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  #parsingBytes(bodyBytes: number): number {
    const values = Math.ceil(bodyBytes / VALUE_CHARACTERS_MIN);
    return Math.min(values, this.#limits.jsonValuesMax) * VALUE_BYTES;
  }
}

/** @internal tests call it */
export function startParserThread(settings: ParserSettings): Worker {
  return new Worker(entryBeside(import.meta.url, "parser-thread"), {
    name: "winnow-parser",
    workerData: settings,
    execArgv: [],
  });
}

function contentOf(answer: ParserAnswer): BodyContent {
  if (answer.kind === "content") return unpackContent(answer.content);
  throw new Error(`The parser failed: ${answer.message}`);
}

function bodyLimitsOf(limits: BodyLimits): BodyLimits {
  const { jsonValuesMax, instancesMax, kMax, excludedIdsMax } = limits;
  return { jsonValuesMax, instancesMax, kMax, excludedIdsMax };
}
