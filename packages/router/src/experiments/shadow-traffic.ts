// Shadow traffic: a fraction of the requests that an experiment has answered is also sent to another model,
// whose answers are compared with those that clients got, and counted. No client waits for it, and it is the
// first to be dropped:
//
//   answered ─▶ drawn? ─▶ busy, large? ─▶ queue ─▶ asked, within its budget ─▶ same, reordered, different, failed
//                 └── not ──▶    └── dropped ──┘                                └── late
//
// A shadow starts after the client's answer has been written. A shadow that hangs keeps its place until its
// budget ends; further shadows are dropped meanwhile.

import { Outstanding, StringColumn, WinnowError, toWinnowError } from "@winnow/core";
import type { Clock, ExperimentShadow, Filter, Tensor } from "@winnow/core";
import { instancesOf } from "../limits/request-limits.ts";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import type { ShadowRecord } from "../router-observer.ts";
import type { RouterSettings } from "../router-settings.ts";
import { likenessOf } from "./answer-comparison.ts";

/** Larger batches are dropped: the searches of a hundred rows are a tenth of what a router has under way. */
const INSTANCES_MAX = 32;
/** Values of an answer that are compared in one turn of the event loop. */
const VALUES_MAX = 16_384;

/** What a shadow is not asked for, because it is not compared; and the header, which holds the client's request. */
const NOT_COMPARED = {
  attributes: undefined,
  vectors: undefined,
  explain: undefined,
  header: undefined,
} as const;

/** A request that was answered, and how to ask the shadow. */
export interface ShadowOffer {
  /** Name of the experiment. */
  readonly model: string;
  readonly shadow: Pick<ExperimentShadow, "share" | "budgetMs">;
  readonly request: PredictRequest;
  readonly given: Prediction;
  /** Asks the shadow. It must settle soon after the context of the request is aborted. */
  readonly ask: (request: PredictRequest) => Promise<Prediction>;
}

/** What shadow traffic needs. */
export interface ShadowParts {
  readonly clock: Clock;
  /** A random number in [0, 1). */
  readonly random: () => number;
  /** Whether requests of clients wait for room. */
  readonly isBusy: () => boolean;
  readonly onShadow: (record: ShadowRecord) => void;
  /** Of all experiments of a router together. */
  readonly limits: Pick<RouterSettings, "shadowsMax" | "shadowsWaitingMax" | "shadowBytesMax">;
}

/** What is kept of an offer. What is not compared is not: attributes and vectors may be far larger than outputs. */
interface Waiting extends Omit<ShadowOffer, "given"> {
  readonly outputs: Prediction["outputs"];
  readonly offeredAtMs: number;
  readonly bytes: number;
}

/** The shadow traffic of one router. */
export class ShadowTraffic {
  readonly #parts: ShadowParts;
  readonly #queue: Waiting[] = [];
  readonly #running = new Outstanding<RequestContext>();
  #heldBytes = 0;
  #isClosed = false;

  constructor(parts: ShadowParts) {
    this.#parts = parts;
  }

  /** Shadow requests under way. */
  get running(): number {
    return this.#running.size;
  }

  /**
   * Decides whether to ask the shadow, which then happens later; returns at once. Answers that lack something
   * are not compared.
   */
  offer(offer: ShadowOffer): void {
    const { coverage, degradations = [] } = offer.given;
    if (this.#isClosed || coverage < 1 || degradations.length > 0) return;
    if (this.#parts.random() >= offer.shadow.share) return;
    const bytes = bytesOf(offer);
    const reason = this.#obstacle(offer, bytes);
    if (reason !== undefined) return this.#drop(offer, reason);
    this.#heldBytes += bytes;
    const { clock } = this.#parts;
    const { model, shadow, ask, given } = offer;
    const request = { ...offer.request, ...NOT_COMPARED };
    const { outputs } = given;
    this.#queue.push({ model, shadow, request, outputs, ask, offeredAtMs: clock.nowMs(), bytes });
    // The client's answer is written first.
    clock.setTimer(0, () => this.#next());
  }

  /** Drops the waiting shadow requests and aborts the running ones. */
  close(): void {
    this.#isClosed = true;
    for (const waiting of this.#queue.splice(0)) this.#drop(waiting, "closed");
    for (const context of this.#running) {
      context.abort(() => new WinnowError("CANCELLED", "The router is closing"));
    }
  }

  #obstacle({ request, given }: ShadowOffer, bytes: number): string | undefined {
    const instances = instancesOf(request.signature, request.inputs);
    const values = [...given.outputs.values()].reduce((sum, { data }) => sum + data.length, 0);
    if (instances > INSTANCES_MAX || values > VALUES_MAX) return "large";
    if (this.#parts.isBusy()) return "busy";
    const { shadowsMax, shadowsWaitingMax, shadowBytesMax } = this.#parts.limits;
    // Whatever is to run waits for a moment, even where nothing may wait for others.
    const isFull = this.#queue.length >= Math.max(shadowsWaitingMax, shadowsMax - this.running);
    return isFull || this.#heldBytes + bytes > shadowBytesMax ? "full" : undefined;
  }

  #next(): void {
    while (this.#running.size < this.#parts.limits.shadowsMax) {
      const waiting = this.#queue.shift();
      if (waiting === undefined) return;
      void this.#run(waiting); // Never rejects.
    }
  }

  async #run(waiting: Waiting): Promise<void> {
    const { model, shadow, offeredAtMs, bytes } = waiting;
    const { clock, isBusy } = this.#parts;
    const leftMs = shadow.budgetMs - (clock.nowMs() - offeredAtMs);
    if (leftMs <= 0 || isBusy()) {
      this.#heldBytes -= bytes;
      return this.#drop(waiting, leftMs <= 0 ? "full" : "busy");
    }
    const context = new RequestContext(clock, { timeoutMs: leftMs });
    const id = this.#running.add(context);
    const startMs = clock.nowMs();
    const outcome = await outcomeOf(waiting, context);
    context.finish();
    this.#running.delete(id);
    this.#heldBytes -= bytes;
    const elapsedMs = clock.nowMs() - startMs;
    this.#parts.onShadow({ model, ...outcome, elapsedMs });
    this.#next();
  }

  #drop({ model }: Pick<ShadowOffer, "model">, reason: string): void {
    this.#parts.onShadow({ model, outcome: "dropped", reason, elapsedMs: 0 });
  }
}

/** The outcome of a shadow request. Never rejects, and settles when the context ends, whatever the shadow does. */
async function outcomeOf(
  { request, outputs, ask }: Waiting,
  context: RequestContext,
): Promise<Pick<ShadowRecord, "outcome" | "reason">> {
  try {
    const answer = await context.untilAborted(ask({ ...request, context }));
    return { outcome: likenessOf(outputs, answer.outputs), reason: "" };
  } catch (error) {
    const { code } = toWinnowError(error);
    if (code === "DEADLINE_EXCEEDED") return { outcome: "late", reason: "" };
    return { outcome: "failed", reason: code };
  }
}

/** Bytes of memory that an offer holds: its values may be views of a whole body. */
function bytesOf({ request, given }: ShadowOffer): number {
  const { inputs, exclude = [], include = [], filter = [] } = request;
  const tensors = [...inputs.values(), ...exclude, ...include, ...given.outputs.values()];
  const buffers = new Set(tensors.flatMap((tensor) => buffersOf(tensor)));
  const bytes = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
  return filter.reduce((sum, each) => sum + filterBytes(each), bytes);
}

/** About the bytes of an object or of a short text. */
const OBJECT_BYTES = 48;

function filterBytes(filter: Filter): number {
  if (filter.kind === "not") return OBJECT_BYTES + filterBytes(filter.of);
  if (filter.kind !== "test") {
    return filter.of.reduce((sum, each) => sum + filterBytes(each), OBJECT_BYTES);
  }
  return filter.values.reduce<number>(
    (sum, value) => sum + OBJECT_BYTES + (typeof value === "string" ? value.length : 0),
    OBJECT_BYTES,
  );
}

function buffersOf({ data }: Tensor): readonly ArrayBufferLike[] {
  return data instanceof StringColumn ? [data.offsets.buffer, data.bytes.buffer] : [data.buffer];
}
