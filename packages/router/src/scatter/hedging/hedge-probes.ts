// One hedge at a time beside a worker that stands still, until it is known to help. All questions that wait for such
// a worker are late at once, often some dozen: to ask all of them twice would double the load of the others at the very
// moment when a busy machine, which delays everybody, looks like a worker that hangs. So the first one is asked
// elsewhere alone. If that is answered first, the others follow; if the worker itself goes on, they need nobody else.

import type { Slot } from "../slot.ts";
import type { WorkerPeer } from "../../workers/worker-peer.ts";

/** How often those that wait for the outcome look, in hedge delays. */
const LOOK_RATIO = 1 / 4;

/** The last hedge beside each worker. */
export class HedgeProbes {
  readonly #last = new WeakMap<WorkerPeer, { readonly slot: Slot; readonly askedAtMs: number }>();

  /** A slot's question was asked elsewhere too. After one that has helped, the worker's next answer makes it count. */
  note(slot: Slot, nowMs: number): void {
    const last = this.#last.get(slot.peer);
    const isAnswered = last !== undefined && last.slot.partials.length > 0;
    if (isAnswered && slot.peer.answeredAtMs < last.askedAtMs) return;
    this.#last.set(slot.peer, { slot, askedAtMs: nowMs });
  }

  /**
   * How long a question for this worker should wait further, in ms, because an earlier one was asked elsewhere less than
   * a hedge delay ago, and neither has that been answered nor has the worker answered anything since. `undefined`: a
   * hedge helps, or would be the first.
   */
  furtherMs(
    peer: WorkerPeer,
    { delayMs, nowMs }: { readonly delayMs: number; readonly nowMs: number },
  ): number | undefined {
    const last = this.#last.get(peer);
    if (last === undefined || last.slot.settled) return undefined;
    if (peer.answeredAtMs >= last.askedAtMs || nowMs - last.askedAtMs >= delayMs) return undefined;
    return delayMs * LOOK_RATIO;
  }
}
