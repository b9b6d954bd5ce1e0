// Model directories in an object store, as `version-watch.ts` polls them. Objects of an upload appear one by
// one, so a version is taken only after two looks, some time apart, have listed the same objects, and never
// while a file that the model names is missing.

import { createHash } from "node:crypto";

import { WinnowError, joinObjectUrl, parseObjectUrl } from "@winnow/core";
import { isModelFile } from "@winnow/model";
import type { ObjectStore, StoredObject } from "@winnow/model";
import type { ModelStorage } from "./version-watch.ts";

/** Objects of all versions of a model that are listed together, at most: some 20 MB while they are. */
const MODEL_OBJECTS_MAX = 2 ** 16;

/** A store seen as model directories. */
export function objectStorage(store: ObjectStore): ModelStorage {
  return {
    directories: (url) => store.folders(parseObjectUrl(url)),
    stamp: async (url) => stampOf(await store.objects(parseObjectUrl(url)), url),
    stamps: (url, names) => stampsBelow(store, url, names),
    join: joinObjectUrl,
    realPath: async (url) => url,
  };
}

/** A listing has a thousand objects in each part, so that of a model costs less than one of each version. */
async function stampsBelow(
  store: ObjectStore,
  url: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, string | undefined> | undefined> {
  const place = parseObjectUrl(url);
  const listed = await store.objects(place, MODEL_OBJECTS_MAX).catch((error: unknown) => {
    if (error instanceof WinnowError && error.code === "RESOURCE_EXHAUSTED") return undefined;
    throw error;
  });
  if (listed === undefined) return undefined;
  const start = place.prefix === "" ? 0 : place.prefix.length + 1;
  const byName = new Map<string, StoredObject[]>(names.map((name) => [name, []]));
  for (const object of listed) {
    byName.get(object.key.slice(start, object.key.indexOf("/", start)))?.push(object);
  }
  return new Map(
    [...byName].map(([name, objects]) => [name, stampOf(objects, joinObjectUrl(url, name))]),
  );
}

/** `objects`: all of the version, ascending by key. */
function stampOf(objects: readonly StoredObject[], url: string): string | undefined {
  const { prefix } = parseObjectUrl(url);
  const names = objects.map(({ key }) => key.slice(prefix.length + 1));
  if (!names.some((name) => isModelFile(name))) return undefined;
  const hash = createHash("sha256");
  for (const { key, bytes, etag } of objects) hash.update(`${key}\0${bytes}\0${etag}\n`);
  return hash.digest("hex");
}
