// Which version each label means. A label is a promise that a version answers, so it moves only when
// the version it is to mean is available; TensorFlow Serving would refuse the whole configuration
// instead, which makes labels in a start-up file impossible there without a flag.
//
//   configured ──the version is available, or unavailable ones are allowed──▶ set
//       └── not yet: a label in use keeps its version, a new one is waited for (UNAVAILABLE)

import { excerpt, WinnowError } from "@winnow/core";
import type { Logger } from "@winnow/core";
import type { VersionLabels } from "../router-settings.ts";

/** What the label book needs. */
export interface LabelBookParts {
  readonly log: Logger;
  /** Whether requests for this version are answered at present. */
  readonly isAvailable: (model: string, version: number) => boolean;
  /** Whether a new label may be set to a version that is not available. */
  readonly allowUnavailable: boolean;
}

/** The labels in use and those that wait for their versions. */
export class LabelBook {
  readonly #parts: LabelBookParts;
  #configured: VersionLabels = new Map();
  #used: VersionLabels = new Map();
  #waiting: ReadonlySet<string> = new Set();

  constructor(parts: LabelBookParts) {
    this.#parts = parts;
  }

  /**
   * Replaces all labels: missing ones are gone, moved ones move when their version is available. Gives
   * whether a label means another version than before.
   */
  configure(labels: VersionLabels): boolean {
    this.#configured = labels;
    return this.refresh();
  }

  /** To be called when versions may have become available. Gives whether a label moved. Cheap while no label waits. */
  settle(): boolean {
    return this.#waiting.size > 0 && this.refresh();
  }

  /**
   * The version that a label means. @throws WinnowError INVALID_ARGUMENT for a label that is not configured,
   * UNAVAILABLE for one whose version is not available yet
   */
  versionOf(model: string, label: string): number {
    const version = this.#used.get(model)?.get(label);
    if (version !== undefined) return version;
    const configured = this.#configured.get(model)?.get(label);
    if (configured === undefined) {
      throw new WinnowError(
        "INVALID_ARGUMENT",
        `Unrecognized servable version label: ${excerpt(label)}`,
      );
    }
    throw new WinnowError(
      "UNAVAILABLE",
      `Label ${excerpt(label)} of model ${excerpt(model)} waits for version ${configured}, which is not available yet`,
    );
  }

  /** What the labels of a model mean, and separately those that wait for a version that is not available. */
  labelsOf(model: string): {
    readonly used: ReadonlyMap<string, number>;
    readonly waiting: ReadonlyMap<string, number>;
  } {
    const used = this.#used.get(model) ?? new Map<string, number>();
    const configured = [...(this.#configured.get(model) ?? [])];
    const waiting = configured.filter(([label, version]) => used.get(label) !== version);
    return { used, waiting: new Map(waiting) };
  }

  /** Sets the labels that can be set, and logs changes and waits once. Gives whether a label moved. */
  refresh(): boolean {
    const waiting = new Set<string>();
    const used = new Map<string, Map<string, number>>();
    for (const [model, labels] of this.#configured) {
      const ofModel = new Map<string, number>();
      for (const [label, configured] of labels) {
        const version = this.#choose({ model, label }, configured);
        if (version !== undefined) ofModel.set(label, version);
        if (version === configured) continue;
        const wait = JSON.stringify([model, label, configured]);
        waiting.add(wait);
        if (this.#waiting.has(wait)) continue;
        const fields = { model, label, version: configured, meanwhile: version };
        this.#parts.log.warn("label waits for its version", fields);
      }
      used.set(model, ofModel);
    }
    const isMoved = textOf(this.#used) !== textOf(used);
    this.#waiting = waiting;
    this.#used = used;
    return isMoved;
  }

  #choose(name: { model: string; label: string }, configured: number): number | undefined {
    const { model, label } = name;
    const { allowUnavailable, isAvailable, log } = this.#parts;
    const before = this.#used.get(model)?.get(label);
    if (before === configured) return before;
    const isNewAndFree = before === undefined && allowUnavailable;
    if (!isNewAndFree && !isAvailable(model, configured)) return before;
    log.info("label set", { model, label, version: configured, before });
    return configured;
  }
}

/** All labels and their versions as text, always in the same order. */
function textOf(labels: VersionLabels): string {
  const texts = Array.from(labels, ([model, ofModel]) =>
    Array.from(ofModel, (label) => JSON.stringify([model, ...label])),
  );
  return texts
    .flat()
    .toSorted((a, b) => (a < b ? -1 : 1))
    .join();
}
