// Model directories in an object store, as `version-watch.ts` polls them. An upload is seen when its objects are listed: until two looks, some time apart, list the same
// objects, and while a file that the model names is missing, the version is not taken.

import { createHash } from "node:crypto";

import { MODEL_FILES, joinObjectUrl, parseObjectUrl } from "@winnow/model";
import type { ObjectStore } from "@winnow/model";
import type { ModelStorage } from "./version-watch.ts";

/** A store as model directories. */
export function objectStorage(store: ObjectStore): ModelStorage {
  return {
    directories: (url) => store.folders(parseObjectUrl(url)),
    stamp: (url) => stampOf(store, url),
    join: joinObjectUrl,
    realPath: async (url) => url,
  };
}

async function stampOf(store: ObjectStore, url: string): Promise<string | undefined> {
  const place = parseObjectUrl(url);
  const objects = await store.objects(place);
  const names = objects.map(({ key }) => key.slice(place.prefix.length + 1));
  if (!names.some((name) => MODEL_FILES.includes(name))) return undefined;
  const hash = createHash("sha256");
  for (const { key, bytes, etag } of objects) hash.update(`${key}\0${bytes}\0${etag}\n`);
  return hash.digest("hex");
}
