// Versions that may be in an object store, for commands that read model files: which versions there are, and
// their files as in a directory.

import {
  WinnowError,
  indexVersions,
  isObjectUrl,
  joinObjectUrl,
  parseObjectUrl,
} from "@winnow/core";
import {
  type ModelVersion,
  ObjectMirror,
  type ObjectStore,
  RangeReader,
  type ReadingOptions,
  objectStores,
  openModelVersion,
  storeEnvironment,
} from "@winnow/model";
import {
  type VersionDirectory,
  newestVersions,
  servedInstead,
  versionOfPolicy,
} from "./model-source.ts";
import type { ConfiguredModel } from "../model-config/model-config.ts";

type Folders = Pick<ObjectStore, "folders">;

/**
 * The newest version of every model that a path or URL leads to: a version itself, a model's directory, or a directory
 * of models. `flag` is the one that named it, for errors. @throws WinnowError NOT_FOUND saying what would work; as the store
 * does
 */
export async function newestVersionsAt(
  location: string,
  {
    flag,
    store = objectStores(storeEnvironment()),
  }: { readonly flag?: string | undefined; readonly store?: Folders } = {},
): Promise<VersionDirectory[]> {
  if (!isObjectUrl(location)) return newestVersions(location, flag);
  const names = await store.folders(parseObjectUrl(location));
  const segments = location.replace(/\/+$/, "").split("/");
  const own = newestAmong(names, segments.at(-1)!, location);
  if (own !== undefined) return [own];
  const below = await Promise.all(
    names.map(async (name) => {
      const url = joinObjectUrl(location, name);
      return newestAmong(await store.folders(parseObjectUrl(url)), name, url);
    }),
  );
  const versions = below.filter((version) => version !== undefined);
  if (versions.length > 0) return versions;
  const version = Number(segments.at(-1));
  if (segments.length < 4 || !Number.isInteger(version)) throw nothingIn(location);
  return [{ model: segments.at(-2)!, version, directory: location }];
}

/**
 * The newest version in a model's directory or prefix, under the name it is served by; in a directory the newest one
 * that workers serve, if there is one. @throws WinnowError
 */
export async function namedVersionsAt(
  model: string,
  basePath: string,
  flag?: string,
): Promise<VersionDirectory[]> {
  const versions = await servedVersionsAt(basePath, flag);
  return versions.map(({ version, directory }) => ({ model, version, directory }));
}

/** Like `newestVersionsAt`; in directories the newest versions that workers serve, if there are any. */
export async function servedVersionsAt(
  location: string,
  flag?: string,
): Promise<VersionDirectory[]> {
  const newest = await newestVersionsAt(location, { flag });
  return newest.map((found) =>
    isObjectUrl(found.directory) ? found : (servedInstead(found) ?? found),
  );
}

/**
 * The newest version of each configured model that its policy allows.
 * @throws WinnowError NOT_FOUND for a model without one
 */
export async function configuredVersions(
  models: readonly ConfiguredModel[],
  store: Folders = objectStores(storeEnvironment()),
): Promise<VersionDirectory[]> {
  const found = await Promise.all(
    models.map(async (configured) => {
      const { model, basePath, policy } = configured;
      if (policy.kind !== "specific") return namedVersionsAt(model, basePath);
      if (!isObjectUrl(basePath)) return versionOfPolicy(configured, policy.versions);
      const names = await store.folders(parseObjectUrl(basePath));
      const wanted = names.filter((name) => policy.versions.includes(Number(name)));
      const newest = newestAmong(wanted, model, basePath);
      if (newest !== undefined) return [newest];
      const text = `${basePath} has no version ${policy.versions.join(", ")}`;
      throw new WinnowError("NOT_FOUND", `Model ${model}: ${text}`);
    }),
  );
  return found.flat();
}

function newestAmong(
  names: readonly string[],
  model: string,
  basePath: string,
): VersionDirectory | undefined {
  const newest = [...indexVersions(names).names].at(-1);
  if (newest === undefined) return undefined;
  const [version, name] = newest;
  return { model, version, directory: joinObjectUrl(basePath, name) };
}

function nothingIn(url: string): WinnowError {
  const text = `There is no model in ${url}; models lie at <prefix>/<name>/<version number>/`;
  return new WinnowError("NOT_FOUND", text);
}

/** Opens versions in directories and object stores. To be closed after the versions that it has opened. */
export class VersionOpener {
  readonly #ranges = new RangeReader(storeEnvironment());
  readonly #mirror = new ObjectMirror({
    store: objectStores(storeEnvironment()),
    files: this.#ranges,
  });

  /** Opens a version. @throws WinnowError as `openModelVersion`, and as the store does */
  async open(location: string, options: ReadingOptions = {}): Promise<ModelVersion> {
    if (!isObjectUrl(location)) return openModelVersion(location, options);
    const { directory } = await this.#mirror.open(location);
    return openModelVersion(directory, { ...options, store: this.#ranges });
  }

  async close(): Promise<void> {
    this.#mirror.close();
    await this.#ranges.close();
  }
}

/** Opens a version in a directory or an object store, passes it to `use`, and closes it. @throws WinnowError */
export async function withVersion<T>(
  location: string,
  use: (version: ModelVersion) => T,
): Promise<T> {
  const opener = new VersionOpener();
  try {
    const version = await opener.open(location);
    try {
      return use(version);
    } finally {
      version.close();
    }
  } finally {
    await opener.close();
  }
}
