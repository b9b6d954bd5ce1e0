// Versions that were unloaded, which TensorFlow Serving's status goes on telling as END. A version counts as
// unloaded when the last table that named it said UNLOADING (or END, with its error): a version whose workers
// are merely lost has not ended. Unlike TensorFlow Serving's, the history is bounded: the last few versions
// of the last models.

import type { RoutedModel, RoutingTable } from "@winnow/cluster";
import type { VersionStatus } from "../predictor.ts";

const VERSIONS_PER_MODEL_MAX = 16;
const MODELS_MAX = 256;

/** Versions that have ended, by model; the oldest entries are dropped first. */
export class VersionHistory {
  #ended: ReadonlyMap<string, ReadonlyMap<number, VersionStatus>> = new Map();
  #before: RoutingTable | undefined;

  /** Notes the versions that the next table no longer names. */
  follow(table: RoutingTable): void {
    for (const model of this.#before?.models.values() ?? []) {
      this.#note(model, table.models.get(model.name));
    }
    this.#before = table;
  }

  /** Every known version, descending: live versions and those that have ended. */
  with(model: string, living: readonly VersionStatus[]): readonly VersionStatus[] {
    const isLiving = new Set(living.map(({ version }) => version));
    const ended = [...(this.#ended.get(model)?.values() ?? [])];
    const over = ended.filter(({ version }) => !isLiving.has(version));
    return [...living, ...over].toSorted((a, b) => b.version - a.version);
  }

  #note(before: RoutedModel, now: RoutedModel | undefined): void {
    const left = new Set((now?.versions ?? []).map(({ key }) => key.version));
    const gone = before.versions.filter(
      ({ key, status }) =>
        !left.has(key.version) && (status.state === "UNLOADING" || status.state === "END"),
    );
    if (gone.length === 0) return;
    const ended = new Map(this.#ended.get(before.name));
    for (const { key, status } of gone) {
      ended.delete(key.version);
      ended.set(key.version, {
        version: key.version,
        state: "END",
        errorCode: status.error?.code ?? "OK",
        errorMessage: status.error?.message ?? "",
      });
    }
    const all = new Map(this.#ended);
    all.delete(before.name);
    all.set(before.name, newest(ended, VERSIONS_PER_MODEL_MAX));
    this.#ended = newest(all, MODELS_MAX);
  }
}

/** The newest entries. */
function newest<Key, Value>(entries: ReadonlyMap<Key, Value>, count: number): Map<Key, Value> {
  return new Map([...entries].slice(-count));
}
