// A limit for work that waits: of tasks that come, so many are under way, and the others wait in the order in which they came.

/** Runs at most `atOnce` tasks at a time, in the order in which they came. */
export class TaskSlots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnce: number) {
    this.#free = atOnce;
  }

  /** Runs a task once its turn comes; gives what the task gives. */
  async run<Result>(task: () => Promise<Result>): Promise<Result> {
    if (this.#free === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#free -= 1;
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
