// A router's part in metrics of routers that share their ports: it gives its page when the supervisor wants it, and
// answers a scrape with the pages of all.

import { type Clock, type Logger, toWinnowError } from "@winnow/core";
import type { MetricsPage } from "@winnow/router";
import { labelledPages } from "./labelled-pages.ts";
import { type PageMessage, type RouterPage, pageMessage, sharingName } from "./page-messages.ts";

/** The channel to the process that started this one. */
interface ParentChannel {
  send(message: PageMessage): void;
  onMessage(listener: (message: unknown) => void): void;
}

/** What the metrics of several routers are made from. */
export interface SharedMetricsParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** This router's metrics. */
  readonly own: MetricsPage;
  /** The number of this router. */
  readonly index: number;
  readonly parent: ParentChannel;
}

/** After which a scrape shows this router alone, because the supervisor does not answer. */
const ANSWER_MS = 4000;

/** The metrics of all routers that share this one's ports. */
export class SharedMetrics implements MetricsPage {
  readonly #parts: SharedMetricsParts;
  #isAsked: Promise<string> | undefined;
  #arrived: ((pages: readonly RouterPage[]) => void) | undefined;

  constructor(parts: SharedMetricsParts) {
    this.#parts = parts;
    parts.parent.onMessage((message) => this.#received(pageMessage(message)));
  }

  /** The pages of all routers; scrapes that come while others wait get the same. */
  text(): Promise<string> {
    this.#isAsked ??= this.#ask().finally(() => (this.#isAsked = undefined));
    return this.#isAsked;
  }

  async #ask(): Promise<string> {
    const { clock, parent, own, index } = this.#parts;
    const pages = await new Promise<readonly RouterPage[] | undefined>((resolve) => {
      const timer = clock.setTimer(ANSWER_MS, () => resolve(undefined));
      this.#arrived = (all) => {
        clock.clearTimer(timer);
        resolve(all);
      };
      parent.send({ winnow: "pages asked" });
    });
    return labelledPages(pages ?? [{ name: sharingName(index), text: await own.text() }]);
  }

  #received(message: PageMessage | undefined): void {
    if (message?.winnow === "pages") this.#arrived?.(message.pages);
    if (message?.winnow === "page wanted") void this.#give(message.round);
  }

  async #give(round: number): Promise<void> {
    const { own, parent, log } = this.#parts;
    try {
      parent.send({ winnow: "page given", round, text: await own.text() });
    } catch (error) {
      log.warn("metrics not given", { error: toWinnowError(error) });
    }
  }
}
