// A walk over folders that are made up: how far it goes, and what it says where it ends.

import { expect, test } from "vitest";
import { FolderWalk } from "./folder-walk.ts";

test("takes 12 000 entries, and refuses the next one", () => {
  const walk = new FolderWalk("assets");
  const folder = walk.next()!;
  for (let entry = 0; entry < 12_000; entry += 1) walk.entry(folder, `${entry}`);

  expect(() => walk.entry(folder, "one more")).toThrow(
    /^Cannot read assets\/: it holds more than 12000 files and folders$/,
  );
});

test("names the first link behind which it found anything, where it refuses a folder without links", () => {
  const walk = new FolderWalk("assets");
  const outer = walk.next()!;
  walk.descend(outer, walk.entry(outer, "plain"), false);
  walk.descend(outer, walk.entry(outer, "root"), true);
  const linked = walk.next()!;
  walk.descend(linked, walk.entry(linked, "usr"), false);
  const below = walk.next()!;
  for (let entry = 3; entry < 12_000; entry += 1) walk.entry(below, `${entry}`);

  expect(below.name).toBe("root/usr");
  expect(() => walk.entry(walk.next()!, "one more")).toThrow("some of them behind the link root");
});

test("descends 32 folders and no further", () => {
  const walk = new FolderWalk("assets");
  let folder = walk.next()!;
  for (let depth = 0; depth < 32; depth += 1) {
    walk.descend(folder, walk.entry(folder, "d"), false);
    folder = walk.next()!;
  }

  expect(folder.name.split("/")).toHaveLength(32);
  expect(() => walk.descend(folder, walk.entry(folder, "deeper"), false)).toThrow(
    /^Cannot read assets\/: d\/d\/.* lies more than 32 folders deep$/,
  );
});

test("a folder that was listed by another name is not new", () => {
  const walk = new FolderWalk("assets");

  expect(walk.isNew({ dev: 1, ino: 2 })).toBe(true);
  expect(walk.isNew({ dev: 2, ino: 1 })).toBe(true);
  expect(walk.isNew({ dev: 1, ino: 2 })).toBe(false);
});
