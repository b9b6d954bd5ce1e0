// All kinds of stores as one store. The client for a cloud is made when its first URL is used.

import { randomInt } from "node:crypto";
import { keepAliveClock } from "@winnow/core";
import type { ObjectBucket, ObjectScheme } from "@winnow/core";
import { AzureStore } from "./azure-store.ts";
import { type CacheSettings, CachedStore } from "./cached-store.ts";
import { GcsStore } from "./gcs-store.ts";
import type { ObjectStore } from "./object-store.ts";
import { S3Store } from "./s3-store.ts";
import type { StoreEnvironment } from "./store-settings.ts";

const RANDOM_VALUES = 2 ** 32;

/** Pauses between attempts keep the process alive, because a command must wait for what it reads. */
const times = { clock: keepAliveClock, random: () => randomInt(RANDOM_VALUES) / RANDOM_VALUES };

/** How each kind of store is made, and what distinguishes two stores with buckets of the same name. */
const KINDS: Readonly<
  Record<
    ObjectScheme,
    {
      readonly open: (environment: StoreEnvironment) => ObjectStore;
      readonly name: (environment: StoreEnvironment) => string;
    }
  >
> = {
  s3: {
    open: (environment) => new S3Store(environment),
    name: (of) => of.AWS_ENDPOINT_URL_S3 ?? of.AWS_ENDPOINT_URL ?? "",
  },
  gs: {
    open: (environment) => new GcsStore(environment, times),
    name: ({ STORAGE_EMULATOR_HOST: host = "" }) => `gs ${host}`,
  },
  az: {
    open: (environment) => new AzureStore(environment, times),
    name: ({ AZURE_STORAGE_SERVICE_ENDPOINT: endpoint = "" }) => `az ${endpoint}`,
  },
};

/** Object stores; with a cache, what they have sent is kept on disk. */
export function objectStores(environment: StoreEnvironment, cache?: CacheSettings): ObjectStore {
  const opened = new Map<ObjectScheme, ObjectStore>();
  const of = ({ scheme }: Pick<ObjectBucket, "scheme">): ObjectStore => {
    const known = opened.get(scheme);
    if (known !== undefined) return known;
    const { open, name } = KINDS[scheme];
    const store = open(environment);
    const kept =
      cache === undefined ? store : new CachedStore({ store, storeName: name(environment), cache });
    opened.set(scheme, kept);
    return kept;
  };
  return {
    folders: (url) => of(url).folders(url),
    objects: (url, most) => of(url).objects(url, most),
    read: (bucket, object, range) => of(bucket).read(bucket, object, range),
  };
}
