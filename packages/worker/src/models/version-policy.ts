// Which version directories of a model are wanted. The rules are TensorFlow Serving's
// (sources/storage_path/file_system_storage_path_source.cc), and one is Winnow's own: where the newest versions cannot be
// loaded, the newest version that can be loaded is wanted as well, so that a broken export never leaves a
// freshly started cluster with nothing to serve.

/** TensorFlow Serving's `model_version_policy`. */
export type VersionPolicy =
  | { readonly kind: "latest"; readonly count: number }
  | { readonly kind: "all" }
  | { readonly kind: "specific"; readonly versions: readonly number[] };

/** Most versions of one model whose files are looked at; more only if the policy names more. */
const LOOKED_AT_MAX = 1000;

/**
 * The versions whose files are worth a look: the newest, which the policy may want or fall back on, and those that it
 * names. Thousands lie there where nobody removes them.
 */
export function versionsLookedAt(
  policy: VersionPolicy,
  versions: readonly number[],
): ReadonlySet<number> {
  const count = policy.kind === "latest" ? Math.max(LOOKED_AT_MAX, policy.count) : LOOKED_AT_MAX;
  const newest = versions.toSorted((a, b) => b - a).slice(0, count);
  if (policy.kind !== "specific") return new Set(newest);
  const named = new Set(policy.versions);
  return new Set([...newest, ...versions.filter((version) => named.has(version))]);
}

/** What is known of a model's versions when some of them are chosen. */
export interface VersionChoice {
  /** Complete version directories on disk. */
  readonly available: readonly number[];
  /** Versions that failed to load, here or on another worker. */
  readonly failed: ReadonlySet<number>;
  /** The version the cluster answers with by default, if there is one. */
  readonly serving: number | undefined;
  /** Versions that other workers answer with by default: those workers or this one may be behind. */
  readonly servedElsewhere: readonly number[];
}

/**
 * The versions to hold, in the order in which to load them: the serving version first (a restarted worker
 * must not delay its clients), then the others from new to old.
 */
export function wantedVersions(policy: VersionPolicy, choice: VersionChoice): number[] {
  const descending = [...choice.available].toSorted((a, b) => b - a);
  const byPolicy = versionsOfPolicy(policy, { descending, failed: choice.failed });
  const { serving } = choice;
  const isWanted = (version: number): boolean =>
    byPolicy.has(version) || (policy.kind === "latest" && isAheadOf(serving, version, choice));
  const others = descending.filter((version) => isWanted(version) && version !== serving);
  return serving !== undefined && descending.includes(serving) ? [serving, ...others] : others;
}

/**
 * Whether a version is newer than the default here, and is already the default on other workers. It stays
 * wanted until this worker has followed them, even if a still newer version has appeared: the newest may have
 * to wait for a worker in drain, and once that worker has left, nobody could answer with the version that the
 * others serve. (Not under a `specific` policy, which may go back to an older version: a newer one is then
 * what all workers are leaving.)
 */
function isAheadOf(
  serving: number | undefined,
  version: number,
  { servedElsewhere }: VersionChoice,
): boolean {
  return serving !== undefined && version > serving && servedElsewhere.includes(version);
}

/**
 * Whether the default version is to be replaced by an older one: the policy does not name it, and of the
 * versions that the policy names one can be loaded, but none that is newer. The default answers until that
 * one is ready everywhere. Only a `specific` policy goes back.
 */
export function isServingLeft(policy: VersionPolicy, choice: VersionChoice): boolean {
  const { available, failed, serving } = choice;
  if (serving === undefined) return false;
  const descending = [...available].toSorted((a, b) => b - a);
  const byPolicy = versionsOfPolicy(policy, { descending, failed });
  const newest = descending.find((version) => byPolicy.has(version) && !failed.has(version));
  return newest !== undefined && newest < serving && !byPolicy.has(serving);
}

interface OrderedVersions {
  readonly descending: readonly number[];
  readonly failed: ReadonlySet<number>;
}

function versionsOfPolicy(policy: VersionPolicy, versions: OrderedVersions): ReadonlySet<number> {
  if (policy.kind === "all") return new Set(versions.descending);
  if (policy.kind === "specific") return new Set(policy.versions);
  return latestVersions(policy.count, versions);
}

/** The newest versions by number, down to and including the `count`-th one that can be loaded. */
function latestVersions(count: number, { descending, failed }: OrderedVersions): Set<number> {
  const wanted = new Set<number>();
  let loadable = 0;
  for (const version of descending) {
    if (loadable >= Math.max(1, count)) break;
    wanted.add(version);
    if (!failed.has(version)) loadable += 1;
  }
  return wanted;
}
