// What this router knows of models: their names, the states of their versions, the version that a URL means.
// It is put together from the routing table (live versions), the history (versions that have ended) and the
// label book (what labels mean).

import { WinnowError, excerpt } from "@winnow/core";
import type { Fingerprint, Logger } from "@winnow/core";
import type { Announcement, RoutedVersion, RoutingTable } from "@winnow/cluster";
import { isServable } from "@winnow/cluster";
import { LabelBook } from "./label-book.ts";
import type { ModelTarget, VersionStatus } from "../predictor.ts";
import type { RouterSettings, VersionLabels } from "../router-settings.ts";
import { VersionHistory } from "./version-history.ts";
import { resolveVersion, statusesOf } from "./version-resolution.ts";

/** Sources of the knowledge; each call reads the present state. */
export interface KnownModelsParts {
  readonly log: Logger;
  readonly settings: Pick<RouterSettings, "labels" | "allowUnavailableLabels">;
  readonly table: () => RoutingTable;
  /** Last announcements of workers that cannot be asked at present. */
  readonly unreachable: () => readonly Announcement[];
  /** Whether the order that says what labels mean is known (`ModelOrders.isKnown`). */
  readonly knowsOrder: () => boolean;
  /** Why a program is not ready in this router. */
  readonly programErrorOf: (fingerprint: Fingerprint) => WinnowError | undefined;
  /** A notice on a program that is ready; "" for most. */
  readonly programNoticeOf: (fingerprint: Fingerprint) => string;
}

/** Models, versions and labels by name. */
export class KnownModels {
  readonly #parts: KnownModelsParts;
  readonly #history = new VersionHistory();
  readonly #labels: LabelBook;
  /** Names are read with every request, for its metrics, and change only with the table. */
  #named: { readonly table: RoutingTable; readonly names: readonly string[] } | undefined;

  constructor(parts: KnownModelsParts) {
    this.#parts = parts;
    const { log, settings, table } = parts;
    this.#labels = new LabelBook({
      log,
      isAvailable: (model, number) => {
        const versions = table().models.get(model)?.versions ?? [];
        const version = versions.find(({ key }) => key.version === number);
        return version?.status.state === "AVAILABLE";
      },
      allowUnavailable: settings.allowUnavailableLabels,
    });
    this.#labels.configure(settings.labels);
  }

  /** Replaces all labels; each is set when its version is available. Gives whether a label moved. */
  setLabels(labels: VersionLabels): boolean {
    return this.#labels.configure(labels);
  }

  /** Follows a new table. Gives whether a label moved. */
  follow(table: RoutingTable): boolean {
    this.#history.follow(table);
    this.#named = undefined;
    return this.#labels.settle();
  }

  /** Names of models with versions that have not ended, ascending. */
  names(): readonly string[] {
    const table = this.#parts.table();
    if (this.#named?.table === table) return this.#named.names;
    const names = [...table.models.keys()].toSorted();
    this.#named = { table, names };
    return names;
  }

  /** Versions of a model, descending, with those that have ended; `undefined` if there never were any. */
  status(model: string): readonly VersionStatus[] | undefined {
    const routed = this.#parts.table().models.get(model);
    const living =
      routed === undefined
        ? []
        : statusesOf(routed, ({ key }) => ({
            error: this.#parts.programErrorOf(key.fingerprint),
            notice: this.#parts.programNoticeOf(key.fingerprint),
          }));
    const all = this.#history.with(model, living);
    return routed === undefined && all.length === 0 ? undefined : all;
  }

  /** What the labels of a model mean, and which of them wait for their version. */
  labelsOf(model: string): ReturnType<LabelBook["labelsOf"]> {
    return this.#labels.labelsOf(model);
  }

  /**
   * The version that a target means, by the current table or another one. @throws WinnowError as
   * `resolveVersion` does
   */
  resolve(target: ModelTarget, table: RoutingTable = this.#parts.table()): RoutedVersion {
    return resolveVersion(target, {
      table,
      unreachable: this.#parts.unreachable,
      versionOfLabel: (model, label) => {
        if (!this.#parts.knowsOrder()) throw unknownYet(model, label);
        return this.#labels.versionOf(model, label);
      },
    });
  }
}

function unknownYet(model: string, label: string): WinnowError {
  const text = `Label ${excerpt(label)} of model ${excerpt(model)}: this router has just started and does not know yet what labels mean; try again`;
  return new WinnowError("UNAVAILABLE", text);
}

/** Whether some model answers by default, and no model that could is still being loaded. */
export function isSettled(table: RoutingTable): boolean {
  const models = [...table.models.values()];
  const answering = models.filter(({ versions }) => versions.some(isServable));
  const failed = models.filter(({ versions }) => versions.every(isNotAwaited));
  return answering.length > 0 && answering.length + failed.length >= models.length;
}

/**
 * Whether a start does not wait for a version: it has failed, or it may wait forever, for other models or for its
 * own files.
 */
function isNotAwaited({ status: { state, error }, waitsFor }: RoutedVersion): boolean {
  return state === "END" || waitsFor !== undefined || (state === "START" && error !== undefined);
}
