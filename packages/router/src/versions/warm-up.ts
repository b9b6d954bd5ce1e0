// Replays the requests that a version brings along, as soon as all its partitions can be asked and before
// clients may ask. What is made at first use (buffers of dense models, connections, kernels of devices) is
// then made here. Workers refuse a version whose requests do not fit its model. A request that fails here is
// logged and ends the warm-up, and the version may be asked: workers unload the version before it once it is
// ready everywhere, whether or not a router has warmed it up.
//
//   program ready, has requests ─▶ waits for all partitions ─▶ replays ─▶ may be asked
//                                                                 └── time is up ──▶

import type { Clock, Fingerprint, Logger, WarmUpRequest } from "@winnow/core";
import { WinnowError, toWinnowError } from "@winnow/core";
import type { RoutedVersion, RoutingTable } from "@winnow/cluster";
import { isComplete } from "@winnow/cluster";
import { RequestContext } from "../request-context.ts";
import type { LoadedProgram } from "./loaded-program.ts";

/** What warming up needs. */
export interface WarmUpParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** 0: nothing is replayed. */
  readonly warmUpMsMax: number;
  readonly programs: () => readonly (readonly [Fingerprint, LoadedProgram])[];
  /** Runs one request on a version that clients may not ask yet. */
  readonly replay: (run: Replay) => Promise<void>;
  /** Called when another version may be asked. */
  readonly onChange: () => void;
}

/** A request to replay. */
export interface Replay {
  readonly version: RoutedVersion;
  readonly request: WarmUpRequest;
  readonly context: RequestContext;
}

/** Warms versions up, each content once while its program is held. */
export class WarmUp {
  readonly #parts: WarmUpParts;
  readonly #started = new WeakSet<LoadedProgram>();
  readonly #done = new WeakSet<LoadedProgram>();
  #isClosed = false;
  /** Contexts of the requests that are being replayed. */
  readonly #contexts = new Set<RequestContext>();

  constructor(parts: WarmUpParts) {
    this.#parts = parts;
  }

  /** Versions that may not be asked yet. */
  warming(): ReadonlySet<Fingerprint> {
    const cold = this.#parts.programs().filter(([, loaded]) => this.#isCold(loaded));
    return new Set(cold.map(([fingerprint]) => fingerprint));
  }

  /** Begins with the versions that a new table shows to be complete. */
  follow(table: RoutingTable): void {
    for (const [fingerprint, loaded] of this.#parts.programs()) {
      if (!this.#isCold(loaded) || this.#started.has(loaded)) continue;
      const version = completeVersion(table, fingerprint);
      if (version === undefined) continue;
      this.#started.add(loaded);
      void this.#run(version, loaded); // Never rejects: failures are logged.
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const context of this.#contexts) {
      context.abort(() => new WinnowError("CANCELLED", "The router is closing"));
    }
  }

  #isCold(loaded: LoadedProgram): boolean {
    if (this.#parts.warmUpMsMax === 0 || loaded.warmUp.length === 0) return false;
    return !this.#done.has(loaded);
  }

  async #run(version: RoutedVersion, loaded: LoadedProgram): Promise<void> {
    const { clock, log, warmUpMsMax, onChange } = this.#parts;
    const { model, version: number } = version.key;
    const startMs = clock.nowMs();
    const context = new RequestContext(clock, { timeoutMs: warmUpMsMax });
    const { signal } = context;
    this.#contexts.add(context);
    let replayed = 0;
    try {
      for (const request of loaded.warmUp) {
        if (signal.aborted) break;
        await this.#parts.replay({ version, request, context });
        replayed += 1;
      }
    } catch (error) {
      const { code, message } = toWinnowError(error);
      const fields = { model, version: number, record: replayed, code, message };
      if (!this.#isClosed) log.warn("warm-up request failed", fields);
    } finally {
      context.finish();
      this.#contexts.delete(context);
    }
    this.#done.add(loaded);
    const elapsedMs = Math.round(clock.nowMs() - startMs);
    const asked = loaded.warmUp.length;
    log.info("version warmed up", { model, version: number, replayed, asked, elapsedMs });
    onChange();
  }
}

function completeVersion(table: RoutingTable, fingerprint: Fingerprint): RoutedVersion | undefined {
  const versions = [...table.models.values()].flatMap((model) => model.contents);
  return versions.find(
    (each) =>
      each.key.fingerprint === fingerprint && each.waitsFor === undefined && isComplete(each),
  );
}
