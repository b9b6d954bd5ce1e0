// A number both threads see: the compute side raises it after every batch and load step, the event
// loop reads it without asking, so that a wedged compute thread cannot hide behind a live loop.

/** A shared counter; wraps after 2³² steps, only its changes mean something. */
export class ProgressCounter {
  readonly shared: SharedArrayBuffer;
  readonly #steps: Int32Array;

  /** A new counter, or another thread's, by its `shared` memory. */
  constructor(shared: SharedArrayBuffer = new SharedArrayBuffer(4)) {
    this.shared = shared;
    this.#steps = new Int32Array(shared);
  }

  raise(): void {
    Atomics.add(this.#steps, 0, 1);
  }

  get value(): number {
    return Atomics.load(this.#steps, 0) >>> 0;
  }
}
