// Model directories in an object store, as `version-watch.ts` polls them. Objects of an upload appear one by
// one, so a version is taken only after two looks, some time apart, have listed the same objects, and never
// while a file that the model names is missing.

import { createHash } from "node:crypto";

import { joinObjectUrl, parseObjectUrl } from "@winnow/core";
import { isModelFile } from "@winnow/model";
import type { ObjectStore } from "@winnow/model";
import type { ModelStorage } from "./version-watch.ts";

/** A store seen as model directories. */
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
  if (!names.some((name) => isModelFile(name))) return undefined;
  const hash = createHash("sha256");
  for (const { key, bytes, etag } of objects) hash.update(`${key}\0${bytes}\0${etag}\n`);
  return hash.digest("hex");
}
