// Shadow traffic: a share of the requests that an experiment has answered is asked of another model, too, whose answers
// are compared with those given, and counted. Nobody waits for it, and it is the first to give way:
//
//   answered ─▶ drawn? ─▶ busy, large? ─▶ queue ─▶ asked, within its budget ─▶ same, reordered, different, failed
//                 └── not ──▶    └── dropped ──┘                                └── late
//
// It begins behind the client's answer. A shadow that hangs holds a few places until its budget ends, and
// further ones are dropped meanwhile.

import { StringColumn, WinnowError, toWinnowError } from "@winnow/core";
import type { Clock, ExperimentShadow, Tensor } from "@winnow/core";
import { instancesOf } from "../limits/request-limits.ts";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { RequestContext } from "../request-context.ts";
import type { ShadowRecord } from "../router-observer.ts";
import { likenessOf } from "./answer-comparison.ts";

/** Shadows under way at a time, of all experiments of a router. */
const SHADOWS_MAX = 4;
/** Those that wait. */
const SHADOWS_WAITING_MAX = 32;
/** Inputs and answers held for all of these. */
const HELD_BYTES_MAX: number = 16 * 1024 * 1024;
/** Larger batches are dropped: a hundred rows of searches are a tenth of what a router has under way. */
const INSTANCES_MAX = 32;
/** Values of an answer that are compared, in one turn of the router's thread. */
const VALUES_MAX = 16_384;

/** A request that was answered, and what may be asked beside it. */
export interface ShadowOffer {
  /** The experiment's. */
  readonly model: string;
  readonly shadow: Pick<ExperimentShadow, "share" | "budgetMs">;
  readonly request: PredictRequest;
  readonly given: Prediction;
  /** Asks the shadow; must end soon once the context of the request has. */
  readonly ask: (request: PredictRequest) => Promise<Prediction>;
}

/** Dependencies of shadow traffic. */
export interface ShadowParts {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** Whether clients' requests wait for room. */
  readonly isBusy: () => boolean;
  readonly onShadow: (record: ShadowRecord) => void;
}

interface Waiting {
  readonly offer: ShadowOffer;
  readonly offeredAtMs: number;
  readonly bytes: number;
}

/** The shadow traffic of one router. */
export class ShadowTraffic {
  readonly #parts: ShadowParts;
  readonly #queue: Waiting[] = [];
  readonly #running = new Set<RequestContext>();
  #heldBytes = 0;
  #isClosed = false;

  constructor(parts: ShadowParts) {
    this.#parts = parts;
  }

  /** Shadows under way. */
  get running(): number {
    return this.#running.size;
  }

  /** Perhaps asks the shadow, later; returns at once. Answers that lack something are not compared. */
  offer(offer: ShadowOffer): void {
    const { coverage, degradations = [] } = offer.given;
    if (this.#isClosed || coverage < 1 || degradations.length > 0) return;
    if (this.#parts.random() >= offer.shadow.share) return;
    const bytes = bytesOf(offer);
    const reason = this.#obstacle(offer, bytes);
    if (reason !== undefined) return this.#drop(offer, reason);
    this.#heldBytes += bytes;
    const { clock } = this.#parts;
    this.#queue.push({ offer, offeredAtMs: clock.nowMs(), bytes });
    // The answer to the client is written first.
    clock.setTimer(0, () => this.#next());
  }

  /** Drops what waits and ends what runs. */
  close(): void {
    this.#isClosed = true;
    for (const { offer } of this.#queue.splice(0)) this.#drop(offer, "closed");
    for (const context of this.#running) {
      context.abort(() => new WinnowError("CANCELLED", "The router is closing"));
    }
  }

  #obstacle({ request, given }: ShadowOffer, bytes: number): string | undefined {
    const instances = instancesOf(request.signature, request.inputs);
    const values = [...given.outputs.values()].reduce((sum, { data }) => sum + data.length, 0);
    if (instances > INSTANCES_MAX || values > VALUES_MAX) return "large";
    if (this.#parts.isBusy()) return "busy";
    const isFull = this.#queue.length >= SHADOWS_WAITING_MAX;
    return isFull || this.#heldBytes + bytes > HELD_BYTES_MAX ? "full" : undefined;
  }

  #next(): void {
    while (this.#running.size < SHADOWS_MAX) {
      const waiting = this.#queue.shift();
      if (waiting === undefined) return;
      void this.#run(waiting); // Never rejects.
    }
  }

  async #run({ offer, offeredAtMs, bytes }: Waiting): Promise<void> {
    const { clock, isBusy } = this.#parts;
    const leftMs = offer.shadow.budgetMs - (clock.nowMs() - offeredAtMs);
    if (leftMs <= 0 || isBusy()) {
      this.#heldBytes -= bytes;
      return this.#drop(offer, leftMs <= 0 ? "full" : "busy");
    }
    const context = new RequestContext(clock, { timeoutMs: leftMs });
    this.#running.add(context);
    const startMs = clock.nowMs();
    const outcome = await outcomeOf(offer, context);
    context.finish();
    this.#running.delete(context);
    this.#heldBytes -= bytes;
    const elapsedMs = clock.nowMs() - startMs;
    this.#parts.onShadow({ model: offer.model, ...outcome, elapsedMs });
    this.#next();
  }

  #drop({ model }: ShadowOffer, reason: string): void {
    this.#parts.onShadow({ model, outcome: "dropped", reason, elapsedMs: 0 });
  }
}

/** Never rejects; ends with the context, whatever the shadow does. */
async function outcomeOf(
  { request, given, ask }: ShadowOffer,
  context: RequestContext,
): Promise<Pick<ShadowRecord, "outcome" | "reason">> {
  try {
    // Attributes and explanations are not compared.
    const asked = { ...request, context, attributes: undefined, explain: undefined };
    const answer = await Promise.race([ask(asked), context.aborted]);
    return { outcome: likenessOf(given.outputs, answer.outputs), reason: "" };
  } catch (error) {
    const { code } = toWinnowError(error);
    if (code === "DEADLINE_EXCEEDED") return { outcome: "late", reason: "" };
    return { outcome: "failed", reason: code };
  }
}

/** Memory that an offer holds: values may be views of a whole body. */
function bytesOf({ request, given }: ShadowOffer): number {
  const { inputs, exclude = [], include = [] } = request;
  const tensors = [...inputs.values(), ...exclude, ...include, ...given.outputs.values()];
  const buffers = new Set(tensors.flatMap((tensor) => buffersOf(tensor)));
  return [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
}

function buffersOf({ data }: Tensor): readonly ArrayBufferLike[] {
  return data instanceof StringColumn ? [data.offsets.buffer, data.bytes.buffer] : [data.buffer];
}
