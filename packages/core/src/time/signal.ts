// The signal by which the work of a request learns that nobody waits for it any more. It is what Node's AbortSignal is
// to its listeners, and costs a hundredth: Node gives every AbortSignal a hidden class of its own, so that making one
// takes microseconds, and each line that reads it looks its properties up by name. Whoever needs a signal takes a
// `Signal`, which an AbortSignal is as well.

/** What work may ask of a signal. */
export interface Signal {
  readonly aborted: boolean;
  /** Why it was aborted. */
  readonly reason: unknown;
  /** Throws the reason once it was aborted. */
  throwIfAborted(): void;
  /** Calls `listener` when it is aborted, once; never if it was aborted before. */
  addEventListener(event: "abort", listener: () => void, options: { readonly once: true }): void;
  removeEventListener(event: "abort", listener: () => void): void;
}

/** A signal that its owner aborts. Listeners are called in their order, and must not throw. */
export class AbortableSignal implements Signal {
  aborted = false;
  reason: unknown = undefined;
  readonly #listeners: (() => void)[] = [];

  /** Aborts it; does nothing after the first time. */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const listeners = this.#listeners;
    for (let next = listeners.shift(); next !== undefined; next = listeners.shift()) next();
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  addEventListener(_event: "abort", listener: () => void): void {
    if (!this.aborted) this.#listeners.push(listener);
  }

  removeEventListener(_event: "abort", listener: () => void): void {
    // The latest listener is nearly always the next to leave.
    const at = this.#listeners.lastIndexOf(listener);
    if (at >= 0) this.#listeners.splice(at, 1);
  }
}
