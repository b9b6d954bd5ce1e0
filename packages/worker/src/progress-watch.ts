// Notices a compute side that hangs behind an event loop that still runs. While queries wait and the shared
// counter stands still for `stallMs`, the worker is stalled: its pongs say so and its lease is not renewed,
// until the counter moves again. Time in which this event loop itself stood still does not count, because
// answers of the compute side may lie unread meanwhile (L5). The watch looks regularly while there is work,
// and sleeps while there is none.

import { setGraceTimer } from "@winnow/core";
import type { Clock, GraceTimer, Timer } from "@winnow/core";

/** What the watch looks at. */
export interface ProgressSigns {
  /** Whether any query waits or is being computed. */
  readonly isBusy: boolean;
  /** The shared counter of the compute side. */
  readonly progress: number;
}

/** When missing progress counts as a stall. */
export interface ProgressWatchSettings {
  /** Time without progress, while work waits, that counts as a stall. */
  readonly stallMs: number;
  readonly checkIntervalMs: number;
}

/** Watches for stalls until closed. */
export class ProgressWatch {
  readonly #clock: Clock;
  readonly #settings: ProgressWatchSettings;
  readonly #signs: () => ProgressSigns;
  readonly #onChange: (stalled: boolean) => void;
  #isStalled = false;
  #progress = 0;
  /** Set while work waits without progress. The timer may have fired already. */
  #stall: GraceTimer | undefined;
  /** Set while there is work. */
  #timer: Timer | undefined;
  #isClosed = false;

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

  /** There is work: looks at once, and then every `checkIntervalMs` until it is done. */
  noteWork(): void {
    if (this.#timer === undefined && !this.#isClosed) this.#run();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
    this.#stall?.clear();
  }

  #run(): void {
    this.#timer = undefined;
    this.#look();
    if (!this.#signs().isBusy) return;
    this.#timer = this.#clock.setTimer(this.#settings.checkIntervalMs, () => this.#run());
  }

  /** Whether work waits and nothing has moved since the last look. */
  #look(): boolean {
    const { isBusy, progress } = this.#signs();
    const isStill = isBusy && progress === this.#progress;
    this.#progress = progress;
    if (isStill) {
      const { stallMs } = this.#settings;
      this.#stall ??= setGraceTimer(this.#clock, { delayMs: stallMs }, () => {
        if (this.#look()) this.#tell(true);
      });
    } else {
      this.#stall?.clear();
      this.#stall = undefined;
      this.#tell(false);
    }
    return isStill;
  }

  #tell(isStalled: boolean): void {
    if (isStalled === this.#isStalled) return;
    this.#isStalled = isStalled;
    this.#onChange(isStalled);
  }
}
