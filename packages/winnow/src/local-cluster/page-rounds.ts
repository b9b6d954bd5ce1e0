// The supervisor's part in metrics of routers that share their ports: it collects the pages of all for one that asks.
// Who asks while a round runs gets the pages of that round, so however often a page is asked for, each router makes one
// at a time.

import type { Clock, Timer } from "@winnow/core";
import { type PageMessage, pageMessage } from "./page-messages.ts";

/** What rounds need of the world. */
interface PageRoundsDependencies {
  readonly clock: Clock;
  readonly send: (name: string, message: PageMessage) => void;
}

interface Round {
  readonly number: number;
  readonly askers: Set<string>;
  readonly texts: Map<string, string>;
  readonly timer: Timer;
}

/** How long a router has for its page. */
const ROUND_MS = 2000;

/** Collects pages. Programs are named as the supervisor does, `router r0`, pages by the last word. */
export class PageRounds {
  readonly #names: readonly string[];
  readonly #clock: Clock;
  readonly #send: (name: string, message: PageMessage) => void;
  #count = 0;
  #running: Round | undefined;

  constructor(names: readonly string[], { clock, send }: PageRoundsDependencies) {
    this.#names = names;
    this.#clock = clock;
    this.#send = send;
  }

  /** Takes a message that a program sent. */
  received(from: string, message: unknown): void {
    const about = pageMessage(message);
    if (about?.winnow === "pages asked") this.#asked(from);
    else if (about?.winnow === "page given") this.#given(from, about);
  }

  #asked(from: string): void {
    if (this.#running !== undefined) {
      this.#running.askers.add(from);
      return;
    }
    const number = ++this.#count;
    const timer = this.#clock.setTimer(ROUND_MS, () => this.#end());
    this.#running = { number, askers: new Set([from]), texts: new Map(), timer };
    for (const name of this.#names) this.#send(name, { winnow: "page wanted", round: number });
  }

  #given(from: string, { round, text }: { readonly round: number; readonly text: string }): void {
    const running = this.#running;
    if (running?.number !== round) return;
    running.texts.set(from, text);
    if (running.texts.size < this.#names.length) return;
    this.#clock.clearTimer(running.timer);
    this.#end();
  }

  #end(): void {
    const round = this.#running;
    this.#running = undefined;
    if (round === undefined) return;
    const pages = this.#names.map((name) => ({
      name: name.split(" ").at(-1)!,
      text: round.texts.get(name),
    }));
    for (const asker of round.askers) this.#send(asker, { winnow: "pages", pages });
  }
}
