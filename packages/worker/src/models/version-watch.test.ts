// The watch over a file system that is a Map, and once over a real one.

import { closeSync, openSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test, vi } from "vitest";

import { fileStorage } from "./model-storage.ts";
import { VersionWatch } from "./version-watch.ts";
import type { FoundModel, ModelStorage, WatchSettings } from "./version-watch.ts";

/** Directories by path; the value of a version directory is its stamp, or undefined. */
class MapStorage implements ModelStorage {
  readonly tree = new Map<string, string | undefined>();
  readonly unreadable = new Set<string>();
  broken = false;

  async directories(parent: string): Promise<string[]> {
    if (this.broken) throw new Error("EIO");
    const prefix = `${parent}/`;
    const below = [...this.tree.keys()].filter((name) => name.startsWith(prefix));
    if (below.length === 0 && !this.tree.has(parent)) throw new Error("ENOENT");
    return [...new Set(below.map((name) => name.slice(prefix.length).split("/")[0] ?? ""))];
  }

  async stamp(directory: string): Promise<string | undefined> {
    if (this.unreadable.has(directory)) throw new Error(`EACCES ${directory}`);
    return this.tree.get(directory);
  }

  join(directory: string, name: string): string {
    return `${directory}/${name}`;
  }

  async realPath(name: string): Promise<string> {
    return name;
  }
}

const latest = { kind: "latest", count: 1 } as const;

function watching(settings: Partial<WatchSettings> = {}) {
  const storage = new MapStorage();
  const clock = new ManualClock();
  const warnings: string[] = [];
  const findings: (readonly FoundModel[])[] = [];
  const log = {
    ...silentLogger,
    warn: (event: string, fields?: Record<string, unknown>) => {
      const isTold = fields !== undefined && ("problem" in fields || "error" in fields);
      warnings.push(isTold ? String(fields["problem"] ?? fields["error"]) : event);
    },
  };
  const watch = new VersionWatch(
    { storage, clock, log },
    {
      models: [],
      modelsPath: "/models",
      policy: latest,
      pollIntervalMs: 1000,
      stillLookMs: 0,
      stillMs: 0,
      copyMsMax: 60_000,
      ...settings,
    },
    (models) => findings.push(models),
  );
  const versions = (): string[] =>
    (findings.at(-1) ?? []).flatMap(({ model, versions: found }) =>
      found.map(({ version, stamp }) => `${model}/${version}@${stamp}`),
    );
  return { storage, clock, warnings, findings, watch, versions };
}

describe("VersionWatch", () => {
  test("every folder of the models directory is a model, every integer folder a version", async () => {
    const { storage, watch, versions } = watching();
    storage.tree.set("/models/movies/1", "a").set("/models/movies/0002", "b");
    storage.tree.set("/models/books/7", "c").set("/models/.snapshot/1", "x");
    storage.tree.set("/models/movies/tmp-3", "d");

    await watch.run();

    expect(versions()).toEqual(["movies/1@a", "movies/2@b", "books/7@c"]);
    watch.close();
  });

  test("a look of many models searches no list of all of them for each", async () => {
    const { storage, watch, versions } = watching();
    for (let at = 0; at < 200; at += 1) storage.tree.set(`/models/m${at}/1`, "a");
    await watch.poll();

    const searches = vi.spyOn(Array.prototype, "find");
    await watch.poll();
    const long = (searches.mock.contexts as unknown[][]).filter(({ length }) => length >= 200);
    searches.mockRestore();

    expect([versions().length, long.length]).toEqual([200, 0]);
    watch.close();
  });

  test("files that are still are looked at again after `stillLookMs`, new directories in every look", async () => {
    const { storage, clock, watch, versions } = watching({
      stillLookMs: 5000,
      policy: { kind: "all" },
    });
    const look = async (): Promise<readonly string[]> => {
      clock.advance(1000);
      await watch.poll();
      return versions();
    };
    storage.tree.set("/models/movies/1", "a");
    await watch.poll();

    storage.tree.set("/models/movies/1", "b").set("/models/movies/2", "c");
    const before = await look();
    for (let looks = 0; looks < 3; looks += 1) expect(await look()).toEqual(before);
    const after = await look();
    storage.tree.set("/models/movies/1", "d");
    watch.setModels([]);
    await watch.poll();

    expect(before).toEqual(["movies/1@a", "movies/2@c"]);
    expect(after).toEqual(["movies/1@b", "movies/2@c"]);
    expect(versions()).toEqual(["movies/1@d", "movies/2@c"]);
    watch.close();
  });

  test("a version directory that cannot be read hides no other; what was read before stays", async () => {
    const { storage, clock, watch, versions } = watching();
    storage.tree.set("/models/movies/1", "a").set("/models/movies/2", "b");
    storage.unreadable.add("/models/movies/2");
    await watch.run();
    expect(versions()).toEqual(["movies/1@a", "movies/2@unreadable: EACCES /models/movies/2"]);

    storage.unreadable.clear();
    await clock.advanceSettled(1000);
    storage.unreadable.add("/models/movies/1");
    storage.tree.set("/models/movies/3", "c");
    await clock.advanceSettled(1000);

    expect(versions()).toEqual(["movies/1@a", "movies/2@b", "movies/3@c"]);
    watch.close();
  });

  test("a directory without a model file waits, and counts as soon as it has one", async () => {
    const { storage, clock, warnings, watch, versions } = watching();
    storage.tree.set("/models/movies/1", undefined);

    await watch.run();
    expect(versions()).toEqual([]);
    expect(warnings.join()).toMatch(/Waiting for a model file in \/models\/movies\/1/);

    storage.tree.set("/models/movies/1", "a");
    await clock.advanceSettled(1000);
    expect(versions()).toEqual(["movies/1@a"]);
    watch.close();
  });

  test("a directory beside others that has no model file for 30 s is told as one that waits", async () => {
    const { storage, clock, watch, versions, findings } = watching();
    const waits = (): string[] =>
      (findings.at(-1) ?? []).flatMap(({ copying }) =>
        copying.map(({ version, stamp }) => `${version}@${stamp}`),
      );
    storage.tree.set("/models/movies/1", "a").set("/models/movies/7", undefined);
    // Nothing of this model was ever there, and nobody misses it.
    storage.tree.set("/models/books/1", undefined);
    await watch.run();
    for (let look = 0; look < 29; look += 1) await clock.advanceSettled(1000);
    const early = waits();
    await clock.advanceSettled(1000);
    const late = waits();
    storage.tree.set("/models/movies/7", "g");
    await clock.advanceSettled(1000);

    expect([early, late, waits()]).toEqual([[], ["7@"], []]);
    expect(versions()).toEqual(["movies/1@a", "movies/7@g"]);
    watch.close();
  });

  test("a version that loses its model file, as while it is replaced, is none that waits", async () => {
    const { storage, clock, watch, versions, findings } = watching();
    storage.tree.set("/models/movies/1", "a").set("/models/movies/2", "b");
    await watch.run();
    storage.tree.set("/models/movies/2", undefined);
    for (let look = 0; look < 40; look += 1) await clock.advanceSettled(1000);

    expect(findings.flat().flatMap(({ copying }) => copying)).toEqual([]);
    expect(versions()).toEqual(["movies/1@a", "movies/2@b"]);
    watch.close();
  });

  test("a model without a version number inside is explained in TensorFlow Serving's words, once", async () => {
    const { storage, clock, warnings, watch, findings } = watching();
    storage.tree.set("/models/movies/export", undefined);

    await watch.run();
    await clock.advanceSettled(5000);

    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/No versions of servable movies .*name your leaf directory/);
    expect(findings.at(-1)?.[0]?.problem).toBe(warnings[0]);
    watch.close();
  });

  test("model files without a version directory around them are named", async () => {
    const { storage, warnings, watch } = watching();
    storage.tree.set("/models/movies", "a");

    await watch.run();

    expect(warnings).toEqual([expect.stringMatching(/model files lie in \/models\/movies itself/)]);
    watch.close();
  });

  test("a folder whose name no model can have is named once; hidden ones are meant to be ignored", async () => {
    const { storage, clock, warnings, watch, versions } = watching();
    storage.tree.set("/models/movies/1", "a").set("/models/my movies/1", "b");
    storage.tree.set("/models/.snapshot/1", "c");

    await watch.run();
    await clock.advanceSettled(5000);

    expect(versions()).toEqual(["movies/1@a"]);
    expect(warnings).toEqual([
      expect.stringMatching(/^my movies cannot be a model's name: write /),
    ]);
    watch.close();
  });

  test("a version is gone only after two looks, and one short listing changes nothing", async () => {
    const { storage, clock, watch, versions, findings } = watching();
    storage.tree.set("/models/movies/1", "a").set("/models/movies/2", "b");
    await watch.run();

    storage.tree.delete("/models/movies/1");
    await clock.advanceSettled(1000);
    expect(versions()).toEqual(["movies/1@a", "movies/2@b"]);
    storage.tree.set("/models/movies/1", "a");
    await clock.advanceSettled(1000);
    expect(findings).toHaveLength(1);

    storage.tree.delete("/models/movies/1");
    await clock.advanceSettled(2000);
    expect(versions()).toEqual(["movies/2@b"]);
    watch.close();
  });

  test("a whole model that disappears is gone after two looks", async () => {
    const { storage, clock, watch, findings } = watching();
    storage.tree.set("/models/movies/1", "a").set("/models/books/1", "b");
    await watch.run();

    storage.tree.delete("/models/movies/1");
    await clock.advanceSettled(1000);
    expect(findings.at(-1)?.map(({ model }) => model)).toContain("movies");
    await clock.advanceSettled(1000);

    expect(findings.at(-1)?.map(({ model }) => model)).toEqual(["books"]);
    watch.close();
  });

  test("a disk that fails keeps the last finding and says so once, again if it fails anew", async () => {
    const { storage, clock, warnings, watch, versions } = watching();
    storage.tree.set("/models/movies/1", "a");
    await watch.run();

    storage.broken = true;
    for (let look = 0; look < 3; look += 1) await clock.advanceSettled(1000);
    const once = [...warnings];
    storage.broken = false;
    await clock.advanceSettled(1000);
    storage.broken = true;
    await clock.advanceSettled(1000);

    expect(versions()).toEqual(["movies/1@a"]);
    expect(once.filter((warning) => warning === "Error: EIO")).toHaveLength(1);
    expect(warnings.filter((warning) => warning === "Error: EIO")).toHaveLength(2);
    watch.close();
  });

  test("a store that says itself what it cannot read is not told twice", async () => {
    const { storage, warnings, watch } = watching();
    storage.tree.set("/models/movies/1", "a");
    await watch.poll();

    const told = "Cannot read s3://bucket/models/movies: the credentials have expired";
    vi.spyOn(storage, "directories").mockRejectedValue(new Error(told));
    await watch.poll();

    expect(warnings).toContain(told);
    watch.close();
  });

  test("a disk that does not answer is told of after 10 s, one that does is not", async () => {
    const { storage, clock, warnings, watch } = watching();
    storage.tree.set("/models/movies/1", "a");
    await watch.run();
    for (let look = 0; look < 12; look += 1) await clock.advanceSettled(1000);
    const before = [...warnings];

    storage.directories = () => new Promise(() => undefined);
    for (let second = 0; second < 12; second += 1) await clock.advanceSettled(1000);

    expect(before).toEqual([]);
    expect(warnings).toEqual(["a look at model directories takes long"]);
    watch.close();
  });

  test("changed files are reported; a closed watch sets no more timers", async () => {
    const { storage, clock, watch, versions } = watching({
      modelsPath: undefined,
      models: [{ model: "movies", basePath: "/m", policy: latest }],
    });
    storage.tree.set("/m/1", "a");
    await watch.run();

    storage.tree.set("/m/1", "changed");
    await clock.advanceSettled(1000);
    expect(versions()).toEqual(["movies/1@changed"]);

    watch.close();
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("the named models of a VersionWatch", () => {
  const movies = { model: "movies", basePath: "/m", policy: latest };
  const books = { model: "books", basePath: "/b", policy: latest };

  test("can be replaced: a new one is looked for at once, a missing one is gone at once", async () => {
    const { storage, clock, watch, versions } = watching({
      modelsPath: undefined,
      models: [movies],
    });
    storage.tree.set("/m/1", "a").set("/b/7", "b");
    await watch.run();

    watch.setModels([books]);
    await clock.advanceSettled(0);
    expect(versions()).toEqual(["books/7@b"]);

    watch.setModels([]);
    await clock.advanceSettled(0);
    expect(versions()).toEqual([]);
  });

  test("keep their policy until it is replaced, also when no look is due", async () => {
    const settings = { modelsPath: undefined, models: [movies], pollIntervalMs: 0 };
    const { storage, clock, watch, findings } = watching(settings);
    storage.tree.set("/m/1", "a");
    await watch.run();
    expect(clock.pendingTimers).toBe(0);

    watch.setModels([{ ...movies, policy: { kind: "all" } }]);
    await clock.advanceSettled(0);

    expect(findings.at(-1)?.[0]?.policy).toEqual({ kind: "all" });
    expect(clock.pendingTimers).toBe(0);
  });

  test("that were replaced during a look are not told of any more", async () => {
    const { storage, clock, watch, findings } = watching({
      modelsPath: undefined,
      models: [movies],
    });
    storage.tree.set("/m/1", "a").set("/b/7", "b");

    const look = watch.run();
    watch.setModels([books]);
    await look;
    await clock.advanceSettled(0);

    expect(findings.map((found) => found.map(({ model }) => model))).toEqual([["books"]]);
    expect(clock.pendingTimers).toBe(1);
  });

  test("warn of a version whose number is too large", async () => {
    const { storage, watch, warnings } = watching();
    storage.tree.set("/models/m/1732500000000000000", "a");

    await watch.run();

    const text = "The number of directory 1732500000000000000 is above 9007199254740991";
    expect(warnings).toEqual([expect.stringContaining(`${text}: it is passed over`)]);
  });

  test("warn of versions that their policy names and nobody has", async () => {
    const policy = { kind: "specific", versions: [1, 9] } as const;
    const models = [{ ...movies, policy }];
    const { storage, watch, warnings } = watching({ modelsPath: undefined, models });
    storage.tree.set("/m/1", "a");

    await watch.run();

    expect(warnings).toEqual(["Version 9 of the version policy is not in /m"]);
  });
});

describe("of thousands of directories", () => {
  /** A storage in which a look at files takes 10 ms. */
  function slowly(settings: Partial<WatchSettings> = {}) {
    const all = watching({ stillLookMs: 5000, ...settings });
    const { storage, clock } = all;
    const looks: string[] = [];
    let running = 0;
    let together = 0;
    const stamp = storage.stamp.bind(storage);
    storage.stamp = async (directory) => {
      looks.push(directory);
      running += 1;
      together = Math.max(together, running);
      await Promise.resolve();
      clock.advance(10);
      running -= 1;
      return stamp(directory);
    };
    return { ...all, looks, together: () => together };
  }

  test("a look looks at the files of the newest 1000 versions, four at a time, and says what is left out", async () => {
    const { storage, watch, versions, warnings, looks, together } = slowly();
    for (let version = 1; version <= 1100; version += 1) {
      storage.tree.set(`/models/m/${version}`, "a");
    }

    await watch.poll();

    expect(looks).toHaveLength(1000);
    expect(together()).toBe(4);
    expect([versions()[0], versions().length]).toEqual(["m/101@a", 1000]);
    expect(warnings).toEqual([
      "a look at model directories takes long",
      "There are 1100 versions: of these the newest 1000 are looked at; remove old ones",
    ]);
  });

  test("a look at an object store waits for sixteen answers at a time", async () => {
    const { storage, watch, together } = slowly({ modelsPath: "s3://models" });
    for (let version = 1; version <= 40; version += 1) {
      storage.tree.set(`s3://models/m/${version}`, "a");
    }

    await watch.poll();

    expect(together()).toBe(16);
  });

  test("a version that was seen stays, without a look, when thousands of newer ones come", async () => {
    const { storage, watch, versions, looks } = slowly();
    storage.tree.set("/models/m/5", "a");
    await watch.poll();
    for (let version = 6; version <= 1100; version += 1) {
      storage.tree.set(`/models/m/${version}`, "b");
    }
    looks.length = 0;

    await watch.poll();
    await watch.poll();

    expect(versions()[0]).toBe("m/5@a");
    expect(looks).not.toContain("/models/m/5");
    storage.tree.delete("/models/m/5");
    await watch.poll();
    await watch.poll();
    expect(versions()[0]).toBe("m/101@b");
  });

  test("versions that a policy names are looked at, however old they are", async () => {
    const policy = { kind: "specific", versions: [7] } as const;
    const { storage, watch, versions, looks } = slowly({ policy });
    for (let version = 1; version <= 1100; version += 1) {
      storage.tree.set(`/models/m/${version}`, "a");
    }

    await watch.poll();

    expect(looks).toHaveLength(1001);
    expect(versions()[0]).toBe("m/7@a");
  });

  test("a problem names the first four directories that wait, and counts the others", async () => {
    const { storage, watch, warnings } = slowly();
    for (let version = 1; version <= 50; version += 1) {
      storage.tree.set(`/models/m/${version}`, undefined);
    }

    await watch.poll();

    expect(warnings).toEqual([
      [1, 2, 3, 4].map((version) => `Waiting for a model file in /models/m/${version}; `).join("") +
        "and 46 more",
    ]);
  });

  test("a long look at the start is followed by no pause, because the first finding needs a second look", async () => {
    const { storage, clock, watch, versions } = slowly({ stillMs: 500 });
    for (let version = 1; version <= 100; version += 1) {
      storage.tree.set(`/models/m/${version}`, "a");
    }
    await watch.run();
    const early = versions();

    await clock.advanceSettled(500);

    expect(early).toEqual([]);
    expect(versions()).toHaveLength(100);
    watch.close();
  });

  test("a look of one second is followed by a pause of four", async () => {
    const { storage, clock, watch, looks } = slowly();
    for (let version = 1; version <= 100; version += 1) {
      storage.tree.set(`/models/m/${version}`, "a");
    }
    await watch.run();
    storage.tree.set("/models/m/101", "new");
    looks.length = 0;

    await clock.advanceSettled(3990);
    const early = looks.length;
    await clock.advanceSettled(10);

    expect(early).toBe(0);
    expect(looks).toContain("/models/m/101");
    watch.close();
  });
});

test("on a real file system: stamps follow the files, links to directories count", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "winnow-watch-"));
  await mkdir(path.join(base, "1", "variables"), { recursive: true });
  await symlink(path.join(base, "1"), path.join(base, "2"));
  await writeFile(path.join(base, "3"), "a file is no version");

  expect((await fileStorage.directories(base)).toSorted()).toEqual(["1", "2"]);
  expect(await fileStorage.stamp(path.join(base, "1"))).toBeUndefined();
  await writeFile(path.join(base, "1", "saved_model.pb"), "x");
  const first = await fileStorage.stamp(path.join(base, "1"));
  await writeFile(path.join(base, "1", "variables", "variables.index"), "y");
  const second = await fileStorage.stamp(path.join(base, "1"));

  expect(first).toBeDefined();
  expect(second).not.toBe(first);
  await rm(base, { recursive: true });
});

test("a stamp changes with an asset alone, with the manifest, and with any file beside thousands of assets", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "winnow-stamp-"));
  await mkdir(path.join(base, "variables"));
  await mkdir(path.join(base, "assets"));
  const write = (name: string, text: string): Promise<void> =>
    writeFile(path.join(base, name), text);
  for (let file = 0; file < 1500; file += 1) await write(`assets/${file}.txt`, "");
  const files = ["saved_model.pb", "variables/variables.index", "assets/words.txt", "SHA256SUMS"];
  for (const name of files) await write(name, "before");
  const stamps = [await fileStorage.stamp(base)];

  for (const name of files) {
    await write(name, "after");
    stamps.push(await fileStorage.stamp(base));
  }

  expect(new Set(stamps).size).toBe(1 + files.length);
  await rm(base, { recursive: true });
});

test("a model file counts and changes the stamp beside more entries than are kept", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "winnow-crowd-"));
  for (let file = 0; file < 2100; file += 1) closeSync(openSync(path.join(base, `a${file}`), "w"));
  const stamps = [await fileStorage.stamp(base)];
  for (const text of ["before", "after"]) {
    await writeFile(path.join(base, "saved_model.pb"), text);
    stamps.push(await fileStorage.stamp(base));
  }

  expect(stamps[0]).toBeUndefined();
  expect(new Set(stamps).size).toBe(3);
  await rm(base, { recursive: true });
});

test("a directory with a model.onnx counts, and its stamp changes with any table beside it", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "winnow-onnx-"));
  const files = ["model.onnx", "winnow.json", "items.npy", "ids.txt", "model.onnx.data"];
  const stamps = [await fileStorage.stamp(base)];
  for (const text of ["before", "after"]) {
    for (const name of files) {
      await writeFile(path.join(base, name), text);
      stamps.push(await fileStorage.stamp(base));
    }
  }

  expect(stamps[0]).toBeUndefined();
  expect(new Set(stamps).size).toBe(1 + 2 * files.length);
  await rm(base, { recursive: true });
});

test("a stamp is taken of what links lead to, once, where they lead back or into the whole disk", async () => {
  const base = await mkdtemp(path.join(tmpdir(), "winnow-links-"));
  await mkdir(path.join(base, "shared"));
  await mkdir(path.join(base, "1", "assets"), { recursive: true });
  await writeFile(path.join(base, "1", "saved_model.pb"), "x");
  await writeFile(path.join(base, "shared", "words"), "before");
  const links = { a: ".", b: ".", shared: "../../shared", gone: "nowhere" };
  for (const [name, target] of Object.entries(links)) {
    await symlink(target, path.join(base, "1", "assets", name));
  }

  const before = await fileStorage.stamp(path.join(base, "1"));
  await writeFile(path.join(base, "shared", "words"), "afterwards");
  const after = await fileStorage.stamp(path.join(base, "1"));
  await symlink("/", path.join(base, "1", "assets", "root"));
  const rooted = await fileStorage.stamp(path.join(base, "1"));

  expect(new Set([before, after, rooted]).size).toBe(3);
  await rm(base, { recursive: true });
});
