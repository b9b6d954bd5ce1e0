// Model directories in an object store: how many listings a look at many versions costs, and that stamps are the same
// whichever listing they are of.

import { WinnowError, silentLogger, writtenObject } from "@winnow/core";
import type { ObjectUrl } from "@winnow/core";
import type { ObjectStore, StoredObject } from "@winnow/model";
import { expect, test } from "vitest";

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { objectStorage } from "./object-storage.ts";
import { VersionWatch } from "./version-watch.ts";
import type { FoundModel } from "./version-watch.ts";

/** A store of objects by key, which notes what was listed, and lists only so many at once. */
class ListedStore implements ObjectStore {
  readonly etags = new Map<string, string>();
  readonly listings: string[] = [];
  most = Infinity;

  async folders({ prefix }: ObjectUrl): Promise<string[]> {
    const below = this.#below(prefix).map(({ key }) => key.slice(prefix.length + 1).split("/")[0]!);
    return [...new Set(below)];
  }

  async objects(url: ObjectUrl): Promise<StoredObject[]> {
    this.listings.push(writtenObject(url, url.prefix));
    const found = this.#below(url.prefix);
    if (found.length > this.most) throw new WinnowError("RESOURCE_EXHAUSTED", "too many");
    return found;
  }

  async read(): Promise<Uint8Array> {
    return new Uint8Array();
  }

  #below(prefix: string): StoredObject[] {
    return [...this.etags]
      .filter(([key]) => key.startsWith(`${prefix}/`))
      .map(([key, etag]) => ({ key, etag, bytes: 1 }))
      .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  }
}

function watching(store: ListedStore) {
  const clock = new ManualClock();
  let found: readonly FoundModel[] = [];
  const watch = new VersionWatch(
    { storage: objectStorage(store), clock, log: silentLogger },
    {
      models: [],
      modelsPath: "s3://bucket/models",
      policy: { kind: "latest", count: 1 },
      pollIntervalMs: 1000,
      stillLookMs: 5000,
      stillMs: 300,
      copyMsMax: 60_000,
    },
    (models) => (found = models),
  );
  return { clock, watch, found: () => found };
}

const MODEL = "s3://bucket/models/movies";

function storeOf(versions: number): ListedStore {
  const store = new ListedStore();
  for (let version = 1; version <= versions; version += 1) {
    const files = ["saved_model.pb", "variables/variables.index"];
    for (const file of files) store.etags.set(`models/movies/${version}/${file}`, "a");
  }
  // A file in a folder makes no model, whatever it is.
  store.etags.set("models/movies/0/assets/words.h5", "a");
  return store;
}

test("many versions of a model are looked at by one listing, a new one by its own", async () => {
  const store = storeOf(300);
  const { clock, watch, found } = watching(store);

  await watch.poll();
  clock.advance(1000);
  await watch.poll();

  expect(store.listings).toEqual([MODEL, MODEL]);
  expect(found()[0]!.versions).toHaveLength(300);
  store.etags.set("models/movies/301/saved_model.pb", "a");
  clock.advance(1000);
  await watch.poll();
  expect(store.listings.slice(2)).toEqual([`${MODEL}/0`, `${MODEL}/301`]);
  clock.advance(5000);
  await watch.poll();
  expect(store.listings.slice(4)).toEqual([MODEL]);
});

test("too many objects for one listing are listed by version, with the same stamps", async () => {
  const [together, apart] = [storeOf(20), storeOf(20)];
  apart.most = 10;
  const watches = [watching(together), watching(apart)];

  for (const { clock, watch } of watches) {
    await watch.poll();
    clock.advance(1000);
    await watch.poll();
  }

  expect(apart.listings).toContain(`${MODEL}/7`);
  expect(watches[0]!.found()[0]!.versions).toHaveLength(20);
  expect(watches[1]!.found()).toEqual(watches[0]!.found());
});
