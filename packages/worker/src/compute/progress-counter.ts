// A number in shared memory. The compute side raises it after every batch and load step; the event loop reads
// it without asking, so that a compute thread that hangs is noticed although the event loop still runs.

/** A shared counter. It wraps after 2³² steps: only a change means something, not the value. */
export class ProgressCounter {
  readonly shared: SharedArrayBuffer;
  readonly #steps: Int32Array;

  /** Makes a counter, or opens another thread's by its `shared` memory. */
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
