// When what happened within one request, for a client that asks to be told (`X-Winnow-Timeline: true`): the console
// draws it. It is a span that takes note of its parts, in front of the one that a tracer records, if any.
//
//   [{"name":"topK","fromMs":0.3,"toMs":4.1},{"name":"ask worker","worker":"w0","partitions":2,"attempt":"first",…}]

import type { TraceAttributes, TraceContext, TraceSpan } from "@winnow/core";

/** The header of the request that asks for it, and of the answer that brings it. */
export const TIMELINE_HEADER = "x-winnow-timeline";

/** Most parts that are listed: an answer's headers are bounded, and so is what a request costs here. */
const PARTS_MAX = 64;
/** Characters of the text: clients take 16 KiB of headers, and the names of workers may be long. */
const CHARACTERS_MAX = 8192;

/** Not recorded by anybody: what is in frames means nothing to workers. */
const UNRECORDED: TraceContext = {
  traceId: "0".repeat(32),
  spanId: "0".repeat(16),
  isSampled: false,
};

interface Part {
  readonly name: string;
  readonly fromMs: number;
  toMs?: number;
  readonly worker?: string;
  readonly partitions?: number;
  readonly attempt?: string;
  fault?: string;
}

/** The span of a request. */
export class RequestTimeline implements TraceSpan {
  readonly #startMs: number;
  readonly #inner: TraceSpan | undefined;
  readonly #parts: Part[] = [];

  /** `inner`: what records the request for a collector. */
  constructor(startMs: number, inner: TraceSpan | undefined) {
    this.#startMs = startMs;
    this.#inner = inner;
  }

  get context(): TraceContext {
    return this.#inner?.context ?? UNRECORDED;
  }

  child(name: string, startMs: number, attributes: TraceAttributes = {}): TraceSpan {
    return this.#part(this.#inner?.child(name, startMs, attributes), { name, startMs, attributes });
  }

  end(endMs: number, attributes?: TraceAttributes, fault?: string): void {
    this.#inner?.end(endMs, attributes, fault);
  }

  /** The parts that have ended, in the order in which they began, as many as fit: a header's value. */
  text(): string {
    const told: string[] = [];
    let characters = 2;
    for (const part of this.#parts) {
      if (part.toMs === undefined) continue;
      const text = inAscii(JSON.stringify(part));
      characters += text.length + 1;
      if (characters > CHARACTERS_MAX) break;
      told.push(text);
    }
    return `[${told.join(",")}]`;
  }

  #part(inner: TraceSpan | undefined, { name, startMs, attributes }: PartStart): TraceSpan {
    const part: Part = {
      name,
      fromMs: this.#since(startMs),
      ...named(attributes, "worker", "winnow.worker"),
      ...named(attributes, "partitions", "winnow.partitions"),
      ...named(attributes, "attempt", "winnow.attempt"),
    };
    if (this.#parts.length < PARTS_MAX) this.#parts.push(part);
    return {
      context: inner?.context ?? UNRECORDED,
      child: (inside, fromMs, more = {}) =>
        this.#part(inner?.child(inside, fromMs, more), {
          name: inside,
          startMs: fromMs,
          attributes: more,
        }),
      end: (endMs, more, fault) => {
        part.toMs = this.#since(endMs);
        if (fault !== undefined) part.fault = fault.slice(0, 80);
        inner?.end(endMs, more, fault);
      },
    };
  }

  /** Microseconds are as much as anybody reads. */
  #since(ms: number): number {
    return Math.round((ms - this.#startMs) * 1000) / 1000;
  }
}

/** JSON as headers may hold it. */
function inAscii(text: string): string {
  return text.replaceAll(
    /[^\x20-\x7e]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

interface PartStart {
  readonly name: string;
  readonly startMs: number;
  readonly attributes: TraceAttributes;
}

function named(attributes: TraceAttributes, name: string, from: string): object {
  const value = attributes[from];
  return value === undefined ? {} : { [name]: value };
}
