// Model directories on a file system: the storage that `version-watch.ts` polls.

import { createHash } from "node:crypto";
import { readdir, realpath, stat } from "node:fs/promises";
import path from "node:path";

import type { ModelStorage } from "./version-watch.ts";

/** A version directory is looked into once one of these files is in it. */
const MODEL_FILES = [
  "saved_model.pb",
  "saved_model.pbtxt",
  "model.onnx",
  "winnow.json",
  "pipeline.yaml",
  "experiment.yaml",
];
/** Folders whose files are part of the stamp, the most important first: files above the limit are not. */
const STAMPED_FOLDERS = ["variables", "assets", "assets.extra"];
/** Files that a stamp covers: the 10 000 assets that a version may have, and its other files. */
const STAMPED_FILES_MAX = 12_000;

/** The local (or mounted) file system. */
export const fileStorage: ModelStorage = {
  directories: listDirectories,
  stamp: stampOf,
  join: (directory, name) => path.join(directory, name),
  realPath: (name) => realpath(name),
};

async function listDirectories(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  const names = await Promise.all(
    entries.map(async (entry) => {
      if (entry.isDirectory()) return entry.name;
      if (!entry.isSymbolicLink()) return undefined;
      // Links to directories count, as in TensorFlow Serving: trees like `latest -> /data/7` are common.
      const target = await stat(path.join(directory, entry.name)).catch(() => undefined);
      return target?.isDirectory() === true ? entry.name : undefined;
    }),
  );
  return names.filter((name) => name !== undefined);
}

async function stampOf(directory: string): Promise<string | undefined> {
  const names = await readdir(directory);
  if (!MODEL_FILES.some((name) => names.includes(name))) return undefined;
  const nested = await Promise.all(
    STAMPED_FOLDERS.map(async (folder) => {
      const below = await namesBelow(path.join(directory, folder));
      return below.toSorted((a, b) => (a < b ? -1 : 1)).map((name) => path.join(folder, name));
    }),
  );
  const files = [...names.toSorted(), ...nested.flat()].slice(0, STAMPED_FILES_MAX);
  const lines = await Promise.all(
    files.map(async (file) => {
      const facts = await stat(path.join(directory, file)).catch(() => undefined);
      if (facts?.isFile() !== true) return "";
      // With the change time, because a copy may have the size and modification time of the former file.
      return `${file} ${facts.size} ${facts.mtimeMs} ${facts.ctimeMs}`;
    }),
  );
  return createHash("sha256").update(lines.join("\n")).digest("hex");
}

/**
 * Names below a folder at any depth, relative to it, up to the limit of a stamp. Links to folders are
 * followed, and each folder is listed once: two links that lead back into their own folder would give 2⁴⁰
 * paths, and the look would never end.
 */
async function namesBelow(folder: string): Promise<string[]> {
  const names: string[] = [];
  const folders = [""];
  const listed = new Set<string>();
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    const at = path.join(folder, next);
    const facts = await stat(at).catch(() => undefined);
    if (facts?.isDirectory() !== true || listed.has(`${facts.dev} ${facts.ino}`)) continue;
    listed.add(`${facts.dev} ${facts.ino}`);
    const entries = await readdir(at, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (names.length === STAMPED_FILES_MAX) return names;
      const name = path.join(next, entry.name);
      names.push(name);
      // Other kinds of files cannot be folders. A link's target is looked at when it is taken from the list.
      if (entry.isDirectory() || entry.isSymbolicLink()) folders.push(name);
    }
  }
  return names;
}
