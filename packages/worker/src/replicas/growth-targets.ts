// Up to where this worker holds files of item updates that are appended to (`models/growing-file.ts`), by version directory.

import { holdingsOf } from "@winnow/cluster";
import type { Announcement } from "@winnow/cluster";

import { heldGrowth } from "../models/growing-file.ts";
import type { HeldGrowth } from "../models/growing-file.ts";
import type { FoundVersion } from "../models/directory-stillness.ts";
import type { FoundModel } from "../models/version-watch.ts";
import { heldAs, heldContent, isFailed, isRefused, isServing, openedOf } from "./replica-set.ts";
import type { HeldVersion, ReplicaSet } from "./replica-set.ts";

interface GrowthContext {
  readonly set: ReplicaSet;
  /** Announcements of the other workers. */
  readonly others: readonly Announcement[];
  readonly nowMs: number;
  /** Whether a content is the default, here or elsewhere. */
  readonly isServed: (held: HeldVersion) => boolean;
}

/** The chosen states, kept from step to step. */
export class GrowthTargets {
  #targets: ReadonlyMap<string, HeldGrowth> = new Map();

  /** Chooses anew, for all directories as they were found. */
  update(models: readonly FoundModel[], context: GrowthContext): void {
    const targets = new Map<string, HeldGrowth>();
    for (const { model, versions } of models) {
      for (const found of versions) {
        const key = keyOf(model, found);
        const target = heldGrowth(this.#targets.get(key), found.stamp, {
          nowMs: context.nowMs,
          endOf: (stamp) => endOf({ ...found, model, stamp }, context),
          told: toldLengths({ ...found, model }, context),
        });
        if (target !== undefined) targets.set(key, target);
      }
    }
    this.#targets = targets;
  }

  /** A directory as it is to be held: with the stamp of the state that was chosen. */
  of(model: string, found: FoundVersion): FoundVersion {
    const target = this.#targets.get(keyOf(model, found));
    return target === undefined ? found : { ...found, stamp: target.stamp };
  }
}

const keyOf = (model: string, { version, directory }: FoundVersion): string =>
  `${model}/${version} ${directory}`;

type FoundContent = FoundVersion & { readonly model: string };

function endOf(
  content: FoundContent,
  { set, isServed }: GrowthContext,
): "default" | "failed" | undefined {
  const held = heldAs(set, content);
  if (held === undefined) return undefined;
  if (isFailed(held, isServed) || isRefused(held)) return "failed";
  const fingerprint = openedOf(held)?.fingerprint;
  const { model, version } = content;
  const serves = fingerprint !== undefined && isServing(set, { model, version, fingerprint });
  return serves ? "default" : undefined;
}

/** Lengths that other workers load or hold: of the default content only while this worker lacks that. */
function toldLengths({ model, version }: FoundContent, { set, others }: GrowthContext): number[] {
  const serving = set.serving.get(model);
  const known = serving && heldContent(set, serving) && serving.fingerprint;
  return others.flatMap((worker) =>
    holdingsOf(worker, model).flatMap((holding) => {
      const isHeld = holding.state === "loading" || holding.state === "ready";
      const isNews = known === undefined || holding.fingerprint !== known;
      const counts = isHeld && isNews && holding.version === version;
      return counts ? (holding.updateBytes ?? []) : [];
    }),
  );
}
