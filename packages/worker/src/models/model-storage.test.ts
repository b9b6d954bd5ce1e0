// Both ways in which folders are looked into find the same; looks of one turn are one.

import {
  appendFile,
  mkdir,
  mkdtemp,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { createFolderLook } from "@winnow/accelerator";
import type { AskedFolder, FolderEntry, LookIntoFolders } from "@winnow/accelerator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { UPDATE_FILE } from "@winnow/model";
import { joinedLooks } from "./folder-looks.ts";
import { hasGrown, updateBytesOf } from "./growing-file.ts";
import { folderStorage } from "./model-storage.ts";

const ENTRIES_MAX = 8;
const native = createFolderLook(ENTRIES_MAX);

describe.skipIf(native === undefined)("the addon's looks and Node's own calls", () => {
  const plain = folderStorage(() => undefined);
  /** By folder, whether the addon could tell what is in it. */
  const told = new Map<string, boolean>();
  const looking: LookIntoFolders = async (folders) => {
    const found = await native!(folders);
    for (const [at, { folder }] of folders.entries()) told.set(folder, found[at] !== undefined);
    return found;
  };
  const joined = folderStorage(() => joinedLooks(looking));
  let base = "";

  beforeAll(async () => {
    base = await mkdtemp(path.join(tmpdir(), "winnow-looks-"));
    const write = async (name: string): Promise<void> => {
      await mkdir(path.dirname(path.join(base, name)), { recursive: true });
      await writeFile(path.join(base, name), name);
    };
    await write("models/1/saved_model.pb");
    await write("models/1/variables/variables.index");
    await write("models/1/variables/variables.data-00000-of-00001");
    await write("models/1/assets/words.txt");
    await write("models/2/model.onnx");
    await write("models/2/assets/more/words.txt");
    await write("models/2/assets.extra/items.jsonl");
    await write("models/3/variables/variables.index");
    await write("models/7/model.keras");
    await write("models/a file");
    await symlink("1", path.join(base, "models", "4"));
    await symlink("a file", path.join(base, "models", "5"));
    await symlink("nowhere", path.join(base, "models", "6"));
    await write("linked/saved_model.pb");
    await symlink("../models/1/assets", path.join(base, "linked", "assets"));
    await symlink("../models/a file", path.join(base, "linked", "file"));
    await symlink("nowhere", path.join(base, "linked", "gone"));
    await write("odd/saved_model.pb");
    await utimes(path.join(base, "odd", "saved_model.pb"), 1e9 / 3, -1e9 / 7);
    for (let at = 0; at <= ENTRIES_MAX; at += 1) await write(`many/${at}/model.onnx`);
    await write("crowd/saved_model.pb");
    for (let at = 0; at <= ENTRIES_MAX; at += 1) await write(`crowd/assets/${at}`);
    await write("модели/1/model.onnx");
    await mkdir(path.join(base, "empty"));
  });

  afterAll(() => rm(base, { recursive: true }));

  test.each(["models", "linked", "many", "empty", "", "crowd"])(
    "list the same in '%s'",
    async (name) => {
      const folder = path.join(base, name);

      const listed = await joined.directories(folder);

      expect(listed).toEqual(await plain.directories(folder));
      expect(told.get(folder)).toBe(!["many", ""].includes(name));
      expect(listed.length > 0).toBe(name !== "empty");
    },
  );

  test.each([
    ["models/1", true],
    ["models/2", true],
    ["models/3", false],
    ["models/4", true],
    ["models/7", true],
    ["models", false],
    ["linked", true],
    ["odd", true],
    ["crowd", true],
    ["many", false],
    ["many/0", true],
    ["модели/1", true],
    ["empty", false],
  ])("stamp %s alike", async (name, isStamped) => {
    const folder = path.join(base, name);

    const stamp = await joined.stamp(folder);

    expect(stamp).toBe(await plain.stamp(folder));
    expect(stamp !== undefined).toBe(isStamped);
    expect(told.get(folder)).toBe(name !== "many");
  });

  test.each(["nowhere", "models/a file", "mod\0els"])("refuse '%s' alike", async (name) => {
    const folder = path.join(base, name);
    const reasonOf = (looked: Promise<unknown>): Promise<string> =>
      looked.then(
        () => "",
        (error: Error) => error.message,
      );

    const reasons = [joined, plain].map((storage) => reasonOf(storage.directories(folder)));

    expect(await reasons[0]).toBe(await reasons[1]);
    expect(await reasons[0]).toMatch(/ENOENT|ENOTDIR|null bytes/);
  });

  test("a link, a file or a folder that is added, changed or removed changes the stamp", async () => {
    const folder = path.join(base, "changing");
    const at = (name: string): string => path.join(folder, name);
    await mkdir(at("variables"), { recursive: true });
    await writeFile(at("saved_model.pb"), "");
    const stamps = [await joined.stamp(folder)];
    const changes = [
      () => writeFile(at("variables/variables.index"), "1"),
      () => utimes(at("variables/variables.index"), 1, 1),
      () => symlink("variables", at("assets")),
      () => writeFile(at("winnow.json"), ""),
      () => rm(at("winnow.json")),
      () => rm(at("variables"), { recursive: true }),
    ];
    for (const change of changes) {
      await change();
      stamps.push(await joined.stamp(folder));
    }

    // Without winnow.json it is as it was before.
    expect(new Set(stamps).size).toBe(changes.length);
    expect(stamps[5]).toBe(stamps[3]);
  });

  test("lines that are appended to a file of item updates can be told from another file", async () => {
    const folder = path.join(base, "updated");
    const file = path.join(folder, UPDATE_FILE);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(path.join(folder, "saved_model.pb"), "");
    const without = await joined.stamp(folder);
    await writeFile(file, "{}\n");
    const first = await joined.stamp(folder);
    await appendFile(file, "{}\n");
    const grown = await joined.stamp(folder);
    await writeFile(`${file}.new`, "{}\n{}\n{}\n");
    const beside = await joined.stamp(folder);
    await rename(`${file}.new`, file);
    const replaced = await joined.stamp(folder);

    expect([first, grown].map((stamp) => updateBytesOf(stamp!))).toEqual([3, 6]);
    expect(hasGrown(first!, grown!)).toBe(true);
    for (const stamp of [without, grown, beside]) expect(hasGrown(stamp!, replaced!)).toBe(false);
    expect(updateBytesOf(without!)).toBeUndefined();
    expect(await plain.stamp(folder)).toBe(replaced);

    await rm(file);
    await symlink("nowhere", file);
    const broken = await joined.stamp(folder);
    expect(await plain.stamp(folder)).toBe(broken);
    await rm(file);
    const gone = await joined.stamp(folder);
    expect(new Set([first, grown, replaced, broken, gone]).size).toBe(5);
  });
});

describe("joined looks", () => {
  const asked = (...folders: string[]): AskedFolder[] =>
    folders.map((folder) => ({ folder, withFacts: false }));
  const named = (name: string): readonly FolderEntry[] => [
    { name, kind: "file", size: 0, mtimeMs: 0, ctimeMs: 0 },
  ];

  test("asks once for what is asked for in a turn, and gives each its own", async () => {
    const calls: string[][] = [];
    const look = joinedLooks(async (folders) => {
      calls.push(folders.map(({ folder }) => folder));
      return folders.map(({ folder }) => (folder === "b" ? undefined : named(folder)));
    });

    const first = await Promise.all([
      look(asked("a", "b")),
      Promise.resolve().then(() => look(asked("c"))),
      look([]),
    ]);
    const second = await look(asked("d"));

    expect(calls).toEqual([["a", "b", "c"], ["d"]]);
    expect(first).toEqual([[named("a"), undefined], [named("c")], []]);
    expect(second).toEqual([named("d")]);
  });

  test("a look that fails fails for all who asked for it, and not for the next", async () => {
    let failures = 1;
    const look = joinedLooks(async (folders) => {
      if (failures-- > 0) throw new Error("no memory");
      return folders.map(({ folder }) => named(folder));
    });

    const failed = await Promise.allSettled([look(asked("a")), look(asked("b"))]);

    expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await look(asked("c"))).toEqual([named("c")]);
  });
});
