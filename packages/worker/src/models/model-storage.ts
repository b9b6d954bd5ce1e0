// Model directories on a file system: the storage that `version-watch.ts` polls.
//
// What a worker at rest does is mostly this, so folders are looked into all at once by the native addon where it can
// (`folder-looks.ts`). Where it cannot, which are large folders, trees, faults and machines without the addon, Node's
// own calls look, in steps. Both find the same, and stamps are the same texts: a folder may go from one way to the
// other between two looks.

import { type Hash, createHash } from "node:crypto";
import { lstat, opendir, realpath, stat } from "node:fs/promises";
import path from "node:path";

import { createFolderLook } from "@winnow/accelerator";
import type { FolderEntry, LookIntoFolders } from "@winnow/accelerator";
import { FolderWalk, WinnowError } from "@winnow/core";
import { MODEL_FILES, UPDATE_FILE, isModelFile } from "@winnow/model";

import { joinedLooks } from "./folder-looks.ts";
import { growingStamp } from "./growing-file.ts";
import type { ModelStorage } from "./version-watch.ts";

/** A version directory is looked into once one of these files is in it, too. */
const TOLD_FILES: ReadonlySet<string> = new Set(["saved_model.pbtxt", "winnow.json"]);
/** Folders whose files are part of the stamp. */
const STAMPED_FOLDERS = ["variables", "assets", "assets.extra"];
const UPDATE_FOLDER_AT = STAMPED_FOLDERS.indexOf(path.posix.dirname(UPDATE_FILE));
/**
 * Files in the version directory itself that are part of the stamp, beside model files: the largest exports have some
 * hundred.
 */
const OUTER_FILES_MAX = 2000;
/** Entries that are read at once: a directory of millions is never listed whole. */
const ENTRIES_AT_ONCE = 256;
/** Files that are looked at together; the event loop and the file threads do other work in between. */
const FILES_AT_ONCE = 32;

/** The local (or mounted) file system. */
export const fileStorage: ModelStorage = folderStorage(() => {
  const look = createFolderLook(ENTRIES_AT_ONCE);
  return look && joinedLooks(look);
});

/**
 * The file system, looked into by what `createLook` gives on first use, and by Node's own calls.
 * @internal tests call it
 */
export function folderStorage(createLook: () => LookIntoFolders | undefined): ModelStorage {
  let created: { readonly look: LookIntoFolders } | undefined;
  const look: LookIntoFolders = (folders) => {
    created ??= { look: createLook() ?? (async (asked) => asked.map(() => undefined)) };
    return created.look(folders);
  };
  return {
    directories: (directory) => directoriesOf(directory, look),
    stamp: (directory) => stampOf(directory, look),
    join: (directory, name) => path.join(directory, name),
    realPath: (name) => realpath(name),
  };
}

async function directoriesOf(directory: string, look: LookIntoFolders): Promise<string[]> {
  const [entries] = await look([{ folder: directory, withFacts: false }]);
  if (entries === undefined) return listDirectories(directory);
  return entries.filter(({ kind }) => kind === "folder").map(({ name }) => name);
}

async function listDirectories(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const entry of await opendir(directory, { bufferSize: ENTRIES_AT_ONCE })) {
    if (entry.isDirectory()) names.push(entry.name);
    if (!entry.isSymbolicLink()) continue;
    // Links to directories count, as in TensorFlow Serving: trees like `latest -> /data/7` are common.
    const target = await stat(path.join(directory, entry.name)).catch(() => undefined);
    if (target?.isDirectory() === true) names.push(entry.name);
  }
  return names;
}

async function stampOf(directory: string, look: LookIntoFolders): Promise<string | undefined> {
  const folders = ["", ...STAMPED_FOLDERS].map((folder) => path.join(directory, folder));
  const looks = await look(folders.map((folder) => ({ folder, withFacts: true })));
  const [outer, ...below] = looks;
  const names = outer?.map(({ name }) => name) ?? (await outerNames(directory));
  if (!names.some((name) => isModelFile(name) || TOLD_FILES.has(name))) return undefined;
  const hash = createHash("sha256");
  if (outer === undefined) await addFiles(hash, directory, names.toSorted());
  else addLines(hash, outer, "");
  for (const [at, folder] of STAMPED_FOLDERS.entries()) {
    const entries = below[at];
    // Of a folder that is not there the look cannot tell more than of one that it must not list.
    const isAbsent =
      outer?.some(({ name, kind }) => name === folder && kind === "folder") === false;
    if (isAbsent) continue;
    const isTree = entries?.some(({ kind }) => kind === "folder") === true;
    if (entries === undefined || isTree) await addFolder(hash, directory, folder);
    else addLines(hash, entries, `${folder}/`);
  }
  return withUpdateFile(hash.digest("hex"), directory, below[UPDATE_FOLDER_AT]);
}

/** The stamp with the file of item updates last, so that one that has grown can be told from one that was replaced. */
async function withUpdateFile(
  others: string,
  directory: string,
  entries: readonly FolderEntry[] | undefined,
): Promise<string> {
  const name = path.posix.basename(UPDATE_FILE);
  if (entries?.some((entry) => entry.name === name) === false) return others;
  const file = path.join(directory, UPDATE_FILE);
  const facts = await stat(file).catch(() => lstat(file).catch(() => undefined));
  if (facts === undefined) return others;
  // A pipe or a broken link: refused when the version is opened, and another stamp once it is gone.
  return facts.isFile() ? growingStamp(others, facts) : `${others}-`;
}

const isUpdateFile = (name: string): boolean => name === UPDATE_FILE;

/** Adds the files of a folder at any depth. */
async function addFolder(hash: Hash, directory: string, folder: string): Promise<void> {
  const below = await namesBelow(path.join(directory, folder), folder).catch(refusal);
  if (typeof below === "string") hash.update(below);
  else {
    const others = below.filter((name) => !isUpdateFile(name));
    await addFiles(hash, directory, others.toSorted(byText));
  }
}

function addLines(hash: Hash, entries: readonly FolderEntry[], prefix: string): void {
  const sorted = entries.toSorted((a, b) => byText(a.name, b.name));
  const others = sorted.filter(({ name }) => !isUpdateFile(prefix + name));
  const lines = others.map((each) => lineOf(prefix + each.name, each.kind === "file", each));
  hash.update(lines.join(""));
}

async function outerNames(directory: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(directory, { bufferSize: ENTRIES_AT_ONCE })) {
    if (names.length < OUTER_FILES_MAX || MODEL_FILES.includes(name)) names.push(name);
  }
  return names;
}

/** The refusal of a folder that holds too much, as part of the stamp: opening the version fails with it. */
function refusal(error: unknown): string {
  if (error instanceof WinnowError) return error.message;
  throw error;
}

const byText = (a: string, b: string): number => (a < b ? -1 : 1);

async function addFiles(hash: Hash, directory: string, files: readonly string[]): Promise<void> {
  for (let start = 0; start < files.length; start += FILES_AT_ONCE) {
    const piece = files.slice(start, start + FILES_AT_ONCE);
    const lines = await Promise.all(piece.map((file) => readLine(directory, file)));
    hash.update(lines.join(""));
  }
}

async function readLine(directory: string, file: string): Promise<string> {
  const facts = await stat(path.join(directory, file)).catch(() => undefined);
  return lineOf(file, facts?.isFile() === true, facts);
}

/** The line of a stamp for one name. */
function lineOf(
  file: string,
  isFile: boolean,
  facts: Pick<FolderEntry, "size" | "mtimeMs" | "ctimeMs"> | undefined,
): string {
  if (!isFile || facts === undefined) return "\n";
  // With the change time, because a copy may have the size and modification time of the former file.
  return `${file} ${facts.size} ${facts.mtimeMs} ${facts.ctimeMs}\n`;
}

/**
 * Names below a folder at any depth, with the folder before them. Links to folders are followed, and each folder is
 * listed once. @throws WinnowError RESOURCE_EXHAUSTED beyond the bounds of a walk (`core/src/limits/folder-walk.ts`)
 */
async function namesBelow(at: string, shownAs: string): Promise<string[]> {
  const names: string[] = [];
  const walk = new FolderWalk(shownAs);
  for (let folder = walk.next(); folder !== undefined; folder = walk.next()) {
    const here = path.join(at, folder.name);
    const facts = await stat(here).catch(() => undefined);
    if (facts?.isDirectory() !== true || !walk.isNew(facts)) continue;
    const entries = await opendir(here, { bufferSize: ENTRIES_AT_ONCE }).catch(() => []);
    for await (const entry of entries) {
      const name = walk.entry(folder, entry.name);
      names.push(`${shownAs}/${name}`);
      // Other kinds of files cannot be folders. A link's target is looked at when it is taken from the list.
      const isLink = entry.isSymbolicLink();
      if (isLink || entry.isDirectory()) walk.descend(folder, name, isLink);
    }
  }
  return names;
}
