// HandleReloadConfigRequest at a router: it gives a models order (`router/versions/model-orders.ts`), and
// answers when every live worker follows it and each model can be asked, which is when TensorFlow Serving
// would answer.
//
//   check the list ─▶ ask every worker ─▶ keep the order ─▶ wait: workers follow, models are available
//        refused            refused        from here on it stands, whatever becomes of this call

import { isSameOrder } from "@winnow/cluster";
import type { ModelsOrder } from "@winnow/cluster";
import { WinnowError, sleep } from "@winnow/core";
import type { Clock, Logger } from "@winnow/core";
import { namedWorkers } from "@winnow/router";
import type { RequestContext, ReloadedModel, Router } from "@winnow/router";
import type { ConfiguredModel } from "./model-config.ts";
import { reasonToWait } from "./reload-wait.ts";
import { configuredModels } from "./reloaded-models.ts";

/** What a reload needs. */
export interface ModelReloadParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly router: Pick<Router, "status"> & {
    readonly orders: Pick<Router["orders"], "give" | "laggards" | "newest">;
  };
  /** Whether labels may name versions that are not available: a reload does not wait for these. */
  readonly allowUnavailableLabels: boolean;
  /** The router that gives the order; for people only. */
  readonly by: string;
  /** The time of day of the order; for people only. */
  readonly wallClock: () => string;
}

const LOOK_INTERVAL_MS = 50;
/** Ms by which the answer should precede the deadline. */
const ANSWER_MS = 100;

/** Runs reloads; one order is given at a time. */
export class ModelReload {
  readonly #parts: ModelReloadParts;
  #isGiving = false;

  constructor(parts: ModelReloadParts) {
    this.#parts = parts;
  }

  /**
   * Replaces all models; gives a note for the client if some workers are away, else `undefined`.
   * @throws WinnowError INVALID_ARGUMENT for a faulty list; the error of a worker that refuses it;
   * UNAVAILABLE without workers, or where the order cannot be kept; ABORTED by another reload;
   * DEADLINE_EXCEEDED if workers or models are not ready in time: the order stays in force then
   */
  async run(
    reloaded: readonly ReloadedModel[],
    context: RequestContext,
  ): Promise<string | undefined> {
    const models = configuredModels(reloaded);
    if (this.#isGiving) {
      throw new WinnowError("ABORTED", "Another reload is under way; try again");
    }
    const { router, log, by, wallClock } = this.#parts;
    this.#isGiving = true;
    let order: ModelsOrder;
    try {
      order = await router.orders.give(models, { by, at: wallClock() }, context);
    } finally {
      this.#isGiving = false;
    }
    log.info("models reloaded", { order: order.number, models: models.map(({ model }) => model) });
    await this.#wait({ order, models }, context);
    const away = router.orders.laggards(order);
    if (away.length === 0) return undefined;
    const names = away.map(({ worker }) => worker).join(", ");
    return `Order ${order.number} stands; workers that are away follow it when they are back: ${names}`;
  }

  async #wait(
    { order, models }: { readonly order: ModelsOrder; readonly models: readonly ConfiguredModel[] },
    context: RequestContext,
  ): Promise<void> {
    const { clock, router, allowUnavailableLabels } = this.#parts;
    const endMs = context.deadlineMs - ANSWER_MS;
    for (;;) {
      context.signal.throwIfAborted();
      const laggards = router.orders.laggards(order).filter(({ isLive }) => isLive);
      const reasons = models.flatMap(
        (model) => reasonToWait(model, router.status(model.model), allowUnavailableLabels) ?? [],
      );
      if (laggards.length + reasons.length === 0) return;
      // This router may have read the order from the store before it knew that its write succeeded.
      if (!isSameOrder(router.orders.newest, order)) {
        throw new WinnowError("ABORTED", `A later reload replaced order ${order.number}`);
      }
      if (clock.nowMs() >= endMs) throw unfinished(order, namedWorkers(laggards), reasons);
      await sleep(clock, LOOK_INTERVAL_MS, context.signal);
    }
  }
}

/** The order stands, but is not followed everywhere by the call's deadline. */
function unfinished(
  { number }: ModelsOrder,
  laggards: string,
  reasons: readonly string[],
): WinnowError {
  const text =
    laggards === ""
      ? `Order ${number} stands and all workers follow it, but not all models can be asked yet`
      : `Order ${number} stands, but is not followed yet by ${laggards}`;
  const waits = reasons.length === 0 ? "" : `${laggards === "" ? ": " : "; "}${reasons.join("; ")}`;
  return new WinnowError("DEADLINE_EXCEEDED", `${text}${waits}`);
}
