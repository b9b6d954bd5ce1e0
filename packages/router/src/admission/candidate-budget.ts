// The memory of what searches find: scores, ids and the text of an answer are held from the first reply of a
// worker until the answer is written, long after the last row of the search counts as answered. So candidates
// have a budget of their own, over all requests, which a request keeps until its models are released.

import { WinnowError } from "@winnow/core";
import type { RefusalReason } from "../router-observer.ts";
import type { RouterSettings } from "../router-settings.ts";

/** A request of at most this many candidates is small: others do not keep it out. */
const SMALL_CANDIDATES = 4096;

/** Counts the candidates of all requests. */
export class CandidateBudget {
  readonly #max: number;
  readonly #onRefused: (reason: RefusalReason) => void;
  #held = 0;

  constructor(
    { heldCandidatesMax }: Pick<RouterSettings, "heldCandidatesMax">,
    onRefused: (reason: RefusalReason) => void = () => undefined,
  ) {
    this.#max = heldCandidatesMax;
    this.#onRefused = onRefused;
  }

  /** Candidates of requests that are not answered yet. */
  get held(): number {
    return this.#held;
  }

  /**
   * Takes the candidates of a request; the result gives them back, and must be called exactly once. While none are
   * held, a request of any size may take its own: the request limits bound it.
   * @throws WinnowError UNAVAILABLE, at once, where they would exceed the budget
   */
  take(candidates: number): () => void {
    const isSmall = candidates <= SMALL_CANDIDATES;
    if (!isSmall && this.#held > 0 && this.#held + candidates > this.#max) {
      this.#onRefused("candidates");
      const text = `This router is busy with ${this.#held} candidates of answers; try again later`;
      throw new WinnowError("UNAVAILABLE", text);
    }
    this.#held += candidates;
    return () => {
      this.#held -= candidates;
    };
  }
}
