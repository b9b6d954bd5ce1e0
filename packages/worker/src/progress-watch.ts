// Notices a wedged compute side behind a live event loop (reliability: progress lease). While queries
// wait and the shared counter stands still for `stallMs`, the worker is stalled: its pongs say so and
// its lease is not renewed, until the counter moves again.

import type { Clock, Timer } from "@winnow/core";

/** What is looked at. */
export interface ProgressSigns {
  /** Whether any query waits or runs. */
  readonly isBusy: boolean;
  /** The shared counter of the compute side. */
  readonly progress: number;
}

/** How patient the watch is. */
export interface ProgressWatchSettings {
  /** Time without progress, while work waits, that counts as a stall. */
  readonly stallMs: number;
  readonly checkIntervalMs: number;
}

/** Looks at the signs regularly until closed. */
export class ProgressWatch {
  readonly #clock: Clock;
  readonly #settings: ProgressWatchSettings;
  readonly #signs: () => ProgressSigns;
  readonly #onChange: (stalled: boolean) => void;
  #isStalled = false;
  #progress = 0;
  /** Since when work waits without progress. */
  #stillSinceMs: number | undefined;
  #timer: Timer | undefined;

  constructor(
    parts: {
      readonly clock: Clock;
      readonly signs: () => ProgressSigns;
      readonly onChange: (stalled: boolean) => void;
    },
    settings: ProgressWatchSettings,
  ) {
    this.#clock = parts.clock;
    this.#signs = parts.signs;
    this.#onChange = parts.onChange;
    this.#settings = settings;
  }

  get isStalled(): boolean {
    return this.#isStalled;
  }

  /** Looks now and then again and again. */
  run(): void {
    this.#look();
    this.#timer = this.#clock.setTimer(this.#settings.checkIntervalMs, () => this.run());
  }

  close(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
  }

  #look(): void {
    const { isBusy, progress } = this.#signs();
    const nowMs = this.#clock.nowMs();
    const isStill = isBusy && progress === this.#progress;
    this.#progress = progress;
    this.#stillSinceMs = isStill ? (this.#stillSinceMs ?? nowMs) : undefined;
    const isStalled =
      this.#stillSinceMs !== undefined && nowMs - this.#stillSinceMs >= this.#settings.stallMs;
    if (isStalled === this.#isStalled) return;
    this.#isStalled = isStalled;
    this.#onChange(isStalled);
  }
}
