// What a router does on HandleReloadConfigRequest. All connected workers are asked first whether they
// would take the models, so that a refusal changes nothing; then they are told, labels are set, and
// the call is answered when each model can be asked, as TensorFlow Serving answers it.
//
//   check the list ─▶ ask every worker ─▶ tell every worker ─▶ labels ─▶ wait until available
//
// Nothing is written anywhere: a worker that restarts comes back with what its flags or file say.

import type { OrderedModel, WorkerConnector } from "@winnow/cluster";
import { WinnowError, excerpt, sleep, toWinnowError } from "@winnow/core";
import type { Clock, Logger } from "@winnow/core";
import type { ReloadPatience, ReloadedModel, Router, WorkerStanding } from "@winnow/router";
import { labelsOf } from "./config-flags.ts";
import type { ConfiguredModel } from "./model-config.ts";
import { reasonToWait } from "./reload-wait.ts";
import { configuredModels } from "./reloaded-models.ts";

/** What a reload acts on. */
export interface ModelReloadParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly router: Pick<Router, "workers" | "setLabels" | "status">;
  readonly connector: Pick<WorkerConnector, "setModels">;
  /** Labels may mean versions that are not available: they are not waited for. */
  readonly allowUnavailableLabels: boolean;
}

/** One worker's answer, at most. */
const WORKER_TIMEOUT_MS = 5000;
const LOOK_INTERVAL_MS = 50;
/** The answer should leave before the deadline does. */
const ANSWER_MS = 100;

/** Reloads, one at a time. */
export class ModelReload {
  readonly #parts: ModelReloadParts;
  /** Grows with every reload that workers were told of. */
  #reloads = 0;
  #isTelling = false;

  constructor(parts: ModelReloadParts) {
    this.#parts = parts;
  }

  /**
   * Replaces all models; gives what the client should know although all went well.
   * @throws WinnowError INVALID_ARGUMENT for a list that cannot be; what a worker says of it;
   * UNAVAILABLE without workers; ABORTED by another reload; DEADLINE_EXCEEDED while models load
   */
  async run(
    reloaded: readonly ReloadedModel[],
    patience: ReloadPatience,
  ): Promise<string | undefined> {
    const models = configuredModels(reloaded);
    if (this.#isTelling) {
      throw new WinnowError("ABORTED", "Another reload is under way; try again");
    }
    this.#isTelling = true;
    let absent: string[];
    try {
      absent = await this.#tellAll(models, patience);
    } finally {
      this.#isTelling = false;
    }
    await this.#wait(models, patience);
    if (absent.length === 0) return undefined;
    return `Workers not connected now keep the models they were started with: ${absent.join(", ")}`;
  }

  /** Tells all workers, or none if one of them refuses; gives the names of those not connected. */
  async #tellAll(
    models: readonly ConfiguredModel[],
    { deadlineMs, signal }: ReloadPatience,
  ): Promise<string[]> {
    const { router, clock, log } = this.#parts;
    const all = router.workers();
    const workers = all.filter(({ askable }) => askable);
    const absent = all.filter(({ askable }) => !askable).map(({ id }) => id);
    if (workers.length === 0) {
      throw new WinnowError("UNAVAILABLE", "Cannot reload: no worker is connected; try again");
    }
    const timeoutMs = Math.min(WORKER_TIMEOUT_MS, deadlineMs - clock.nowMs() - ANSWER_MS);
    const asked = await this.#order(workers, { models, checkOnly: true, timeoutMs });
    if (asked.failures.length > 0) {
      throw failure(asked.failures, "nothing was changed");
    }
    signal.throwIfAborted();
    const told = await this.#order(workers, { models, checkOnly: false, timeoutMs });
    this.#reloads += 1;
    const names = models.map(({ model }) => model);
    log.info("models reloaded", { models: names, workers: told.taken, absent });
    if (told.failures.length > 0) {
      const taken = told.taken.length === 0 ? "no worker" : told.taken.join(", ");
      throw failure(told.failures, `labels are unchanged; the new models were taken by ${taken}`);
    }
    router.setLabels(labelsOf({ models }));
    return absent;
  }

  async #order(workers: readonly WorkerStanding[], order: TimedOrder): Promise<Outcomes> {
    const { connector } = this.#parts;
    const { models, checkOnly, timeoutMs } = order;
    const sent: OrderedModel[] = models.map(({ model, basePath, policy }) => ({
      model,
      basePath,
      policy,
    }));
    const taken: string[] = [];
    const failures: WorkerFailure[] = [];
    await Promise.all(
      workers.map(async ({ id, address }) => {
        try {
          await connector.setModels(address, { models: sent, checkOnly }, timeoutMs);
          taken.push(id);
        } catch (error) {
          failures.push({ worker: id, error: toWinnowError(error) });
        }
      }),
    );
    return { taken: taken.toSorted(), failures };
  }

  async #wait(models: readonly ConfiguredModel[], patience: ReloadPatience): Promise<void> {
    const { clock, router, allowUnavailableLabels } = this.#parts;
    const reload = this.#reloads;
    const endMs = patience.deadlineMs - ANSWER_MS;
    for (;;) {
      patience.signal.throwIfAborted();
      const reasons = models.flatMap(
        (model) => reasonToWait(model, router.status(model.model), allowUnavailableLabels) ?? [],
      );
      if (reasons.length === 0) return;
      if (reload !== this.#reloads) {
        throw new WinnowError("ABORTED", "A later reload replaced these models");
      }
      if (clock.nowMs() >= endMs) {
        const text = "All workers have taken the models, but not all can be asked yet";
        throw new WinnowError("DEADLINE_EXCEEDED", `${text}: ${reasons.join("; ")}`);
      }
      await sleep(clock, LOOK_INTERVAL_MS, patience.signal);
    }
  }
}

interface TimedOrder {
  readonly models: readonly ConfiguredModel[];
  readonly checkOnly: boolean;
  readonly timeoutMs: number;
}

interface WorkerFailure {
  readonly worker: string;
  readonly error: WinnowError;
}

interface Outcomes {
  readonly taken: readonly string[];
  readonly failures: readonly WorkerFailure[];
}

const NAMED_FAILURES_MAX = 3;

/** One error for those of several workers: the first few in words, with the code of the first. */
function failure(failures: readonly WorkerFailure[], consequence: string): WinnowError {
  const sorted = failures.toSorted((a, b) => (a.worker < b.worker ? -1 : 1));
  const named = sorted
    .slice(0, NAMED_FAILURES_MAX)
    .map(({ worker, error }) => `worker ${worker}: ${excerpt(error.message)}`);
  const more = sorted.length - named.length;
  const others = more > 0 ? `; and ${more} more` : "";
  const text = `Cannot reload, ${consequence}: ${named.join("; ")}${others}`;
  return new WinnowError(sorted[0]!.error.code, text);
}
