// Polls the model directories and reports what is there, facts only. `version-policy.ts` decides which
// versions are wanted, `replica-plan.ts` what is done about them.
//
// A disk that does not answer changes nothing (the last finding stays). A version counts as gone only when
// two looks in a row miss it, because a listing on network storage may be incomplete once. Files that change
// are reported once they are still (`directory-stillness.ts`); until then a directory counts as what it held
// before, even while it is empty because it is being replaced.
//
// Every look lists the directories, in which new versions appear. The files of a version that are still are
// looked at less often (`stillLookMs`): this is the larger part of a look's cost, and finds only versions
// that were replaced in place. The cost of looks is bounded: a few directories at a time, the newest versions of
// each model, and after each look a pause in proportion to its duration.

import {
  TaskSlots,
  indexVersions,
  isModelName,
  isObjectUrl,
  misnamedModelText,
} from "@winnow/core";
import type { Clock, Logger, Timer, VersionIndex } from "@winnow/core";

import { NO_FILES_STAMP, observed, unobserved } from "./directory-stillness.ts";
import type { ObservedDirectory, StillnessSettings, FoundVersion } from "./directory-stillness.ts";
import { versionsLookedAt } from "./version-policy.ts";
import type { VersionPolicy } from "./version-policy.ts";

/** What the watch needs of a file system. */
export interface ModelStorage {
  /** Names of the directories in this directory; rejects if it cannot be read. */
  directories(path: string): Promise<readonly string[]>;
  /**
   * A text that changes whenever a file of this version directory does; `undefined` while the model
   * file is not there yet.
   */
  stamp(directory: string): Promise<string | undefined>;
  /**
   * The stamps of many version directories of a model, by name, where that costs less than each by itself; else
   * `undefined`.
   */
  stamps?(
    basePath: string,
    names: readonly string[],
  ): Promise<ReadonlyMap<string, string | undefined> | undefined>;
  /** Joins a directory and a name in it. */
  join(directory: string, name: string): string;
  /** A path with its links resolved; rejects if it does not exist. */
  realPath(name: string): Promise<string>;
}

/** A model and where its version directories lie. */
export interface ModelLocation {
  readonly model: string;
  readonly basePath: string;
  readonly policy: VersionPolicy;
}

/** Directories that are looked at together: more would delay all other work of the file threads. */
const LOOKS_AT_ONCE = 4;
/** Prefixes of an object store, whose looks are waits for its answers. */
const STORE_LOOKS_AT_ONCE = 16;
/** Version directories of a model from which on they are looked at together, where the storage can. */
const TOGETHER_MIN = 8;
/** After a long look, the pause is this many times as long as the look, but for the first one. */
const PAUSE_FACTOR = 4;
const PAUSE_MS_MAX = 60_000;
/** How long a look may take before it is logged. */
const SLOW_LOOK_MS = 10_000;
/** How long a directory beside other versions may lack a model file before it is told as a version that waits. */
const NO_FILES_MS = 30_000;
/** Directories that one problem names. */
const NAMED_MAX = 4;

/** What to watch: named models, and a directory in which every subdirectory is a model. */
export interface WatchSettings extends StillnessSettings {
  readonly models: readonly ModelLocation[];
  readonly modelsPath: string | undefined;
  /** Policy of the models found in `modelsPath`. */
  readonly policy: VersionPolicy;
  /** 0: look once, and again only when the models change. */
  readonly pollIntervalMs: number;
  /** Files that are still are not looked at again for this long. */
  readonly stillLookMs: number;
}

/** One model as last seen. */
export interface FoundModel {
  readonly model: string;
  readonly policy: VersionPolicy;
  /** Ascending by number; their files were still when last looked at. */
  readonly versions: readonly FoundVersion[];
  /**
   * Directories whose files change from one look to the next: they are still being written; and those that have
   * had no model file for long, beside versions that have one.
   */
  readonly copying: readonly FoundVersion[];
  /** Why there is nothing to load, or nothing more, for people; `undefined` if all is well. */
  readonly problem: string | undefined;
}

/** What a watch needs. */
export interface WatchDependencies {
  readonly storage: ModelStorage;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A version directory and a stamp of its files; no stamp: no model file is there yet. */
interface StampedDirectory extends Omit<FoundVersion, "stamp"> {
  readonly stamp: string | undefined;
  /** Whether the files were looked at in this look. */
  readonly isNew: boolean;
}

/** Version directories with their names in the model's directory, by number. */
interface NamedDirectories {
  readonly directories: readonly Omit<FoundVersion, "stamp">[];
  readonly names: VersionIndex["names"];
}

/** Polls the model directories until closed. */
export class VersionWatch {
  readonly #dependencies: WatchDependencies;
  readonly #settings: WatchSettings;
  readonly #listener: (models: readonly FoundModel[]) => void;
  #named: readonly ModelLocation[];
  /** Grows when the named models change: findings of a look that began before are dropped. */
  #revision = 0;
  #models: ReadonlyMap<string, FoundModel> = new Map();
  /** The last problem that was logged about folders whose names no model can have. */
  #misnamed = "";
  /** Why the models' directory could not be read when it was last tried; "" if it could. */
  #unreadable = "";
  /** Versions that only the last look missed, as `model/version`. */
  #missedOnce: ReadonlySet<string> = new Set();
  /** What all looks so far have shown of each version directory, by model and number. */
  readonly #observed = new Map<string, Map<number, ObservedDirectory>>();
  /** Since when a directory has been there without a model file, by model and number. */
  readonly #emptySinceMs = new Map<string, ReadonlyMap<number, number>>();
  /** When the files of a directory were last looked at. */
  #stampedAtMs = new WeakMap<ObservedDirectory, number>();
  /** The finding that the listener was told last, as text. */
  #told: string | undefined;
  #timer: Timer | undefined;
  #closed = false;
  readonly #lookSlots = new TaskSlots(LOOKS_AT_ONCE);
  readonly #storeLookSlots = new TaskSlots(STORE_LOOKS_AT_ONCE);

  constructor(
    dependencies: WatchDependencies,
    settings: WatchSettings,
    listener: (models: readonly FoundModel[]) => void,
  ) {
    this.#dependencies = dependencies;
    this.#settings = settings;
    this.#listener = listener;
    this.#named = settings.models;
  }

  /**
   * Looks once, and from then on `pollIntervalMs` after the end of each look; sooner where files have changed
   * and may be still by then, later after a look that took long.
   */
  async run(): Promise<void> {
    const revision = this.#revision;
    const startedMs = this.#dependencies.clock.nowMs();
    await this.poll();
    if (this.#closed || revision !== this.#revision) return;
    const wantedMs = this.#nextLookMs();
    if (wantedMs === Infinity) return;
    const tookMs = this.#dependencies.clock.nowMs() - startedMs;
    // A worker that starts waits for its first finding, which needs two looks.
    const factor = this.#told === undefined ? 0 : PAUSE_FACTOR;
    const waitMs = Math.max(wantedMs, Math.min(PAUSE_MS_MAX, factor * tookMs));
    this.#timer = this.#dependencies.clock.setTimer(waitMs, () => {
      void this.run(); // Never rejects: a look that fails keeps the last finding.
    });
  }

  #nextLookMs(): number {
    const { pollIntervalMs, stillMs } = this.#settings;
    const nowMs = this.#dependencies.clock.nowMs();
    const unrest = this.#directories().filter((each) => each.unrest !== undefined);
    const waitsMs = unrest.map(({ sinceMs }) => {
      const leftMs = sinceMs + stillMs - nowMs;
      return leftMs > 0 ? leftMs : stillMs;
    });
    return waitsMs.reduce(
      (leastMs, waitMs) => Math.min(leastMs, waitMs),
      pollIntervalMs === 0 ? Infinity : pollIntervalMs,
    );
  }

  #directories(): ObservedDirectory[] {
    const directories: ObservedDirectory[] = [];
    for (const ofModel of this.#observed.values()) directories.push(...ofModel.values());
    return directories;
  }

  /** Replaces the named models, and looks again. Models that are left out are gone at once. */
  setModels(models: readonly ModelLocation[]): void {
    const told = models.map(({ model, basePath }) => ({ model, basePath }));
    this.#dependencies.log.info("models replaced", { models: told });
    this.#named = models;
    this.#revision += 1;
    this.#stampedAtMs = new WeakMap();
    if (this.#settings.modelsPath === undefined) {
      const names = new Set(models.map(({ model }) => model));
      this.#models = new Map([...this.#models].filter(([name]) => names.has(name)));
    }
    if (this.#timer !== undefined) this.#dependencies.clock.clearTimer(this.#timer);
    void this.run(); // Never rejects: a look that fails keeps the last finding.
  }

  /**
   * Looks once and calls the listener if something changed (always the first time). If a file system or object
   * store does not answer, the log says so, because nothing else would show why no model is found.
   */
  async poll(): Promise<void> {
    const { clock, log } = this.#dependencies;
    const slow = clock.setTimer(SLOW_LOOK_MS, () => {
      const models = this.#named.map(({ basePath }) => basePath);
      const { modelsPath } = this.#settings;
      log.warn("a look at model directories takes long", {
        seconds: SLOW_LOOK_MS / 1000,
        modelsPath,
        models,
      });
    });
    try {
      await this.#lookOnce();
    } finally {
      clock.clearTimer(slow);
    }
  }

  async #lookOnce(): Promise<void> {
    const revision = this.#revision;
    const locations = await this.#locations();
    const found = await Promise.all(locations.map((location) => this.#look(location)));
    if (this.#closed || revision !== this.#revision) return;
    const models = new Map(this.#confirmed(found).map((model) => [model.model, model]));
    const finding = JSON.stringify([...models]);
    const isSame = finding === this.#told;
    this.#report(models);
    this.#models = models;
    // A worker starts from the first finding, which therefore waits until it is known whether the files that
    // it found are still or changing.
    const isFirst = this.#told === undefined;
    if (isFirst && this.#directories().some(({ unrest }) => unrest?.isCopying === false)) return;
    this.#told = finding;
    if (!isSame) this.#listener([...models.values()]);
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== undefined) this.#dependencies.clock.clearTimer(this.#timer);
  }

  /** The named models and those of `modelsPath`. A named model wins over a folder of its name. */
  async #locations(): Promise<ModelLocation[]> {
    const { modelsPath, policy } = this.#settings;
    const byName = new Map(this.#named.map((location) => [location.model, location]));
    for (const model of await this.#folders(modelsPath)) {
      if (modelsPath === undefined || byName.has(model)) continue;
      const basePath = this.#dependencies.storage.join(modelsPath, model);
      byName.set(model, { model, basePath, policy });
    }
    return [...byName.values()];
  }

  async #folders(modelsPath: string | undefined): Promise<readonly string[]> {
    if (modelsPath === undefined) return [];
    try {
      const names = await this.#dependencies.storage.directories(modelsPath);
      this.#reportMisnamed(modelsPath, names);
      if (this.#unreadable !== "") {
        this.#dependencies.log.info("models directory readable again", { modelsPath });
      }
      this.#unreadable = "";
      return names.filter(isModelName);
    } catch (error) {
      const reason = String(error);
      if (reason !== this.#unreadable) {
        this.#dependencies.log.warn("models directory unreadable", { modelsPath, error });
      }
      this.#unreadable = reason;
      return [...this.#models.keys()];
    }
  }

  async #look({ model, basePath, policy }: ModelLocation): Promise<FoundModel> {
    const { storage } = this.#dependencies;
    try {
      const listed = await this.#lookAt(basePath, () => storage.directories(basePath));
      const index = indexVersions(listed);
      const newest = versionsLookedAt(policy, [...index.names.keys()]);
      const directories = [...index.names].map(([version, name]) => ({
        version,
        directory: storage.join(basePath, name),
      }));
      const together = await this.#stampsTogether(
        { model, basePath },
        {
          directories: directories.filter(({ version }) => newest.has(version)),
          names: index.names,
        },
      );
      const looks = directories.map(async (found) =>
        newest.has(found.version)
          ? this.#stamped(model, found, together)
          : this.#lastSeen(model, found),
      );
      const stamped = (await Promise.all(looks)).filter((each) => each !== undefined);
      const observed = this.#observe(model, stamped);
      const versions = observed.flatMap(({ still }) => still ?? []);
      const copying = observed.flatMap(({ seen, unrest }) =>
        unrest?.isCopying === true && !unrest.isGrowth ? [seen] : [],
      );
      const waiting = stamped.filter((each) => each.stamp === undefined);
      const problems = [
        ...(index.names.size === 0 ? [await this.#noVersions(model, basePath)] : []),
        ...tooManyVersions(index.names.size, newest.size),
        ...someOf(index.tooLarge, tooLargeText),
        ...someOf(
          absentVersions(policy, index),
          (version) => `Version ${version} of the version policy is not in ${basePath}`,
        ),
        ...someOf(
          index.duplicates,
          ({ version, ignored }) =>
            `Duplicate directories of version ${version}: ${ignored} ignored`,
        ),
        ...someOf(waiting, ({ directory }) => `Waiting for a model file in ${directory}`),
        ...someOf(copying, ({ directory }) => `Waiting until the files in ${directory} are still`),
      ];
      const empty = this.#longEmpty(model, waiting);
      return {
        model,
        policy,
        versions,
        copying: versions.length === 0 ? copying : [...copying, ...empty],
        problem: problems.join("; ") || undefined,
      };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const { versions = [], copying = [] } = this.#models.get(model) ?? {};
      // Object stores say so themselves, file systems do not.
      const isTold = reason.startsWith("Cannot read ");
      const problem = isTold ? reason : `Cannot read ${basePath}: ${reason}`;
      return { model, policy, versions, copying, problem };
    }
  }

  #lookAt<Found>(location: string, look: () => Promise<Found>): Promise<Found> {
    return (isObjectUrl(location) ? this.#storeLookSlots : this.#lookSlots).run(look);
  }

  /** Those of a model's directories without a model file that have lacked it for long, and were never read. */
  #longEmpty(model: string, waiting: readonly StampedDirectory[]): FoundVersion[] {
    const nowMs = this.#dependencies.clock.nowMs();
    const before = this.#emptySinceMs.get(model);
    const empty = waiting.filter(({ version }) => this.#observed.get(model)?.has(version) !== true);
    const sinceMs = new Map(
      empty.map(({ version }) => [version, before?.get(version) ?? nowMs] as const),
    );
    if (sinceMs.size === 0) this.#emptySinceMs.delete(model);
    else this.#emptySinceMs.set(model, sinceMs);
    return empty
      .filter(({ version }) => nowMs >= sinceMs.get(version)! + NO_FILES_MS)
      .map(({ version, directory }) => ({ version, directory, stamp: NO_FILES_STAMP }));
  }

  /** The stamps of all directories that must be looked at, by directory, if the storage gives them together. */
  async #stampsTogether(
    { model, basePath }: Pick<ModelLocation, "model" | "basePath">,
    { directories, names }: NamedDirectories,
  ): Promise<ReadonlyMap<string, string | undefined> | undefined> {
    const { storage } = this.#dependencies;
    const asked = directories.filter((each) => this.#recentStamp(model, each) === undefined);
    if (storage.stamps === undefined || asked.length < TOGETHER_MIN) return undefined;
    const look = async (): Promise<ReadonlyMap<string, string | undefined> | undefined> =>
      storage.stamps?.(
        basePath,
        asked.map(({ version }) => names.get(version)!),
      );
    const stamps = await this.#lookAt(basePath, look);
    if (stamps === undefined) return undefined;
    return new Map(
      asked.map(({ version, directory }) => [directory, stamps.get(names.get(version)!)]),
    );
  }

  async #stamped(
    model: string,
    { version, directory }: Omit<FoundVersion, "stamp">,
    together: ReadonlyMap<string, string | undefined> | undefined,
  ): Promise<StampedDirectory> {
    const known = this.#recentStamp(model, { version, directory });
    if (known !== undefined) return { version, directory, stamp: known, isNew: false };
    if (together?.has(directory) === true) {
      return { version, directory, stamp: together.get(directory), isNew: true };
    }
    const look = (): Promise<string | undefined> => this.#stampOf(model, { version, directory });
    return { version, directory, stamp: await this.#lookAt(directory, look), isNew: true };
  }

  /** A version outside the newest ones as it was last seen, if it was: it may be the one that serves. */
  #lastSeen(
    model: string,
    { version, directory }: Omit<FoundVersion, "stamp">,
  ): StampedDirectory | undefined {
    const seen = this.#observed.get(model)?.get(version)?.seen;
    if (seen?.directory !== directory) return undefined;
    return { version, directory, stamp: seen.stamp, isNew: false };
  }

  /** Notes a look at a model's directories. A directory without a model file counts as what it was before. */
  #observe(model: string, stamped: readonly StampedDirectory[]): ObservedDirectory[] {
    const nowMs = this.#dependencies.clock.nowMs();
    const before = this.#observed.get(model) ?? new Map<number, ObservedDirectory>();
    const after = new Map<number, ObservedDirectory>();
    for (const [version, known] of before) {
      const kept = unobserved(known, nowMs);
      if (kept !== undefined) after.set(version, kept);
    }
    const listed = stamped.flatMap(({ version, directory, stamp, isNew }) => {
      const known = before.get(version);
      const context = { nowMs, settings: this.#settings };
      const next =
        stamp === undefined
          ? unobserved(known, nowMs)
          : observed(known, { version, directory, stamp }, context);
      if (next !== undefined) after.set(version, next);
      if (next !== undefined && isNew) this.#stampedAtMs.set(next, nowMs);
      return next ?? [];
    });
    this.#observed.set(model, after);
    return listed;
  }

  /** The stamp of files that were still a short time ago; `undefined`: the files must be looked at. */
  #recentStamp(
    model: string,
    { version, directory }: Omit<FoundVersion, "stamp">,
  ): string | undefined {
    const known = this.#observed.get(model)?.get(version);
    if (known === undefined || known.unrest !== undefined) return undefined;
    const sinceMs = this.#dependencies.clock.nowMs() - (this.#stampedAtMs.get(known) ?? -Infinity);
    const isRecent = known.seen.directory === directory && sinceMs < this.#settings.stillLookMs;
    return isRecent ? known.seen.stamp : undefined;
  }

  /**
   * The stamp of one directory. A directory that cannot be read must not hide its neighbours: if it was read
   * before it stays as it was; if it is new it counts as found, so that it is opened and the error is
   * announced.
   */
  async #stampOf(
    model: string,
    { version, directory }: Omit<FoundVersion, "stamp">,
  ): Promise<string | undefined> {
    try {
      return await this.#dependencies.storage.stamp(directory);
    } catch (error) {
      const before = this.#models.get(model)?.versions.find((each) => each.version === version);
      return (
        before?.stamp ?? `unreadable: ${error instanceof Error ? error.message : String(error)}`
      );
    }
  }

  /** TensorFlow Serving's error text, which people search for, and the likeliest mistake. */
  async #noVersions(model: string, basePath: string): Promise<string> {
    const { storage } = this.#dependencies;
    const text =
      `No versions of servable ${model} found under base path ${basePath}. ` +
      "Did you forget to name your leaf directory as a number (eg. '/1/')?";
    const holdsModel = (await storage.stamp(basePath)) !== undefined;
    return holdsModel ? `${text} The model files lie in ${basePath} itself` : text;
  }

  /** Adds the versions that this look misses for the first time, as they were before. */
  #confirmed(found: readonly FoundModel[]): FoundModel[] {
    const missed = new Set<string>();
    const names = new Set(found.map(({ model }) => model));
    const gone = [...this.#models.values()].filter(({ model }) => !names.has(model));
    const looks = [
      ...found,
      ...gone.map(({ model, policy }) => {
        return { model, policy, versions: [], copying: [], problem: undefined };
      }),
    ];
    const confirmed = looks.map(({ model, policy, versions: listed, copying, problem }) => {
      const seen = new Set(listed.map(({ version }) => version));
      const before = this.#models.get(model)?.versions ?? [];
      const doubted = before.filter(({ version }) => {
        if (seen.has(version) || this.#missedOnce.has(`${model}/${version}`)) return false;
        missed.add(`${model}/${version}`);
        return true;
      });
      const versions = [...listed, ...doubted].toSorted((a, b) => a.version - b.version);
      return { model, policy, versions, copying, problem };
    });
    this.#missedOnce = missed;
    const left = confirmed.filter(({ model, versions }) => names.has(model) || versions.length > 0);
    this.#forget(left);
    return left;
  }

  /** Forgets directories that are gone, so that they count as new when they come back. */
  #forget(left: readonly FoundModel[]): void {
    const versionsOf = new Map(left.map(({ model, versions }) => [model, versions]));
    for (const model of this.#emptySinceMs.keys()) {
      if (!versionsOf.has(model)) this.#emptySinceMs.delete(model);
    }
    for (const [model, directories] of this.#observed) {
      const versions = versionsOf.get(model);
      if (versions === undefined) this.#observed.delete(model);
      for (const [version, { still }] of directories) {
        const isThere = versions?.some((each) => each.version === version);
        if (still !== undefined && isThere !== true) directories.delete(version);
      }
    }
  }

  /** Names folders that are not served because of their names, once; hidden ones are not meant to be. */
  #reportMisnamed(modelsPath: string, names: readonly string[]): void {
    const misnamed = names.filter((name) => !isModelName(name) && !name.startsWith("."));
    const problem = someOf(misnamed.toSorted(), misnamedModelText).join("; ");
    if (problem !== "" && problem !== this.#misnamed) {
      this.#dependencies.log.warn("folders are not served", { modelsPath, problem });
    }
    this.#misnamed = problem;
  }

  /** Says what is wrong with a model once, not at every look. */
  #report(models: ReadonlyMap<string, FoundModel>): void {
    for (const { model, problem } of models.values()) {
      if (problem === undefined || problem === this.#models.get(model)?.problem) continue;
      this.#dependencies.log.warn("model directory incomplete", { model, problem });
    }
  }
}

/** Versions that a policy names and for which there is no directory. */
function absentVersions(policy: VersionPolicy, { names }: VersionIndex): readonly number[] {
  if (policy.kind !== "specific" || names.size === 0) return [];
  return policy.versions.filter((version) => !names.has(version));
}

function tooLargeText(name: string): string {
  return `The number of directory ${name.trim()} is above ${Number.MAX_SAFE_INTEGER}: it is passed over`;
}

function tooManyVersions(there: number, lookedAt: number): string[] {
  if (lookedAt >= there) return [];
  const text = `There are ${there} versions: of these the newest ${lookedAt} are looked at`;
  return [`${text}; remove old ones`];
}

/** A text for each of the first few, and how many more there are. */
function someOf<Each>(each: readonly Each[], text: (one: Each) => string): string[] {
  const more = each.length - NAMED_MAX;
  const texts = each.slice(0, NAMED_MAX).map(text);
  return more > 0 ? [...texts, `and ${more} more`] : texts;
}
