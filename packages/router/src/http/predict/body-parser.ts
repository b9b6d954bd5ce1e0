// Reads bodies: small ones at once, on the event loop, large ones in a thread, so that a small body never
// waits for a large one. Both ways give the same content or the same error (`body-reading.ts`).

import type { Clock, HeldMemory, Signal } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import { readContent } from "./body-reading.ts";
import type { BodyContent, BodyLimits, BodyQuestion } from "./body-reading.ts";
import type { HttpSettings } from "../http-settings.ts";
import { JsonReader } from "../json/json-reader.ts";
import { contentBytes } from "./parser-messages.ts";
import { ParserThreads } from "./parser-threads.ts";
import type { StartParserThread } from "./parser-threads.ts";
import { bytesOf } from "../body/request-body.ts";
import type { RequestBody } from "../body/request-body.ts";

/** What a parser needs. */
export interface BodyParserParts {
  readonly clock: Clock;
  readonly settings: HttpSettings;
  readonly limits: BodyLimits;
  /** Called when a body was not read because memory or a place in the queue was missing. */
  readonly onGivenUp: (reason: "memory" | "queue") => void;
  /** Starts a thread. Default: `startParserThread`. */
  readonly start?: StartParserThread | undefined;
}

/** Reads bodies. */
export class BodyParser {
  readonly #parts: BodyParserParts;
  /** One document serves all bodies on the event loop, because each is read without a break. */
  readonly #document: JsonReader;
  readonly #threads: ParserThreads;

  constructor(parts: BodyParserParts) {
    const { clock, settings, limits, onGivenUp, start } = parts;
    this.#parts = parts;
    this.#document = new JsonReader({ valuesMax: limits.jsonValuesMax });
    const onQueueFull = (): void => onGivenUp("queue");
    this.#threads = new ParserThreads({
      clock,
      limits: { ...settings, ...limits },
      onQueueFull,
      start,
    });
  }

  /** Memory that reading large bodies takes in addition to the bodies. */
  held(): HeldMemory {
    const { bytes, bytesMax } = this.#threads;
    return { kind: "parsing", bytes, bytesMax };
  }

  /** Reads a body, whose bytes are given up. @throws as `ParserThreads.read` */
  read(
    body: RequestBody,
    question: BodyQuestion,
    signal: Signal,
  ): BodyContent | Promise<BodyContent> {
    const { settings, limits } = this.#parts;
    if (body.bytes <= settings.smallBodyBytes) {
      const content = readContent(this.#document, bytesOf(body), { question, limits });
      // Examples repeat their context: they may be far longer than the body.
      return question.kind === "examples" ? this.#held(body, content) : content;
    }
    return this.#readLarge(body, question, signal);
  }

  async #readLarge(
    body: RequestBody,
    question: BodyQuestion,
    signal: Signal,
  ): Promise<BodyContent> {
    return this.#held(body, await this.#threads.read(body, plainQuestion(question), signal));
  }

  /** The content, whose columns are accounted for from here on instead of the bytes. @throws WinnowError UNAVAILABLE */
  #held(body: RequestBody, content: BodyContent): BodyContent {
    if (!body.hold(contentBytes(content))) {
      const { settings, onGivenUp } = this.#parts;
      onGivenUp("memory");
      throw new WinnowError(
        "UNAVAILABLE",
        `The bodies of all requests may hold ${settings.bodyBytesInFlightMax} bytes ` +
          "together; try again",
      );
    }
    return content;
  }

  /** Ends the threads. */
  close(): Promise<void> {
    return this.#threads.close();
  }
}

/** The question without what reading does not need, such as a signature's steps and constants. */
function plainQuestion(question: BodyQuestion): BodyQuestion {
  if (question.kind === "examples") return question;
  const signatures = question.signatures?.map(({ name, inputs }) => ({ name, inputs }));
  return { ...question, signatures };
}
