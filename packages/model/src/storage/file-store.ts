// Where files are: a local or mounted file system, or any other store that can list files, give their sizes
// and read them by range. Reading is synchronous, as in model-version.ts.

import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  opendirSync,
  readSync,
  statSync,
} from "node:fs";
import type { Dirent } from "node:fs";
import path from "node:path";
import { FolderWalk, excerpt } from "@winnow/core";

/** A file that is open for reading. Its content must not change while it is open: a store detects replaced files. */
export interface OpenFile {
  readonly size: number;
  /**
   * Fills `target`, or its beginning, with the bytes at a position of the file, and gives their number; 0
   * only at the end of the file. Throws as the methods of `FileStore`.
   */
  read(position: number, target: Uint8Array): number;
  /** Announces that a stretch will be read from start to end, so that a remote store can fetch it in advance. */
  expect?(start: number, end: number): void;
  close(): void;
}

/** Files by location. Every method throws a system error, or a WinnowError with a fitting code. */
export interface FileStore {
  /** The location of a file or directory within a directory; the name has `/` between its parts. */
  join(directory: string, name: string): string;
  /** Whether there is a file or a directory. */
  exists(location: string): boolean;
  /**
   * Names of the files below a directory at any depth, relative to it; none if there is no directory. Links
   * to directories are followed, each directory once.
   */
  filesBelow(location: string): string[];
  open(location: string): OpenFile;
}

/** The local (or mounted) file system. */
export const localFiles: FileStore = {
  join: (directory, name) => path.join(directory, name),
  exists: existsLocally,
  filesBelow: localFilesBelow,
  open: openLocalFile,
};

/** Unlike `existsSync`, which gives `false` for what lies in a folder that may not be entered. */
function existsLocally(location: string): boolean {
  try {
    statSync(location);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw error;
  }
}

/** @throws WinnowError RESOURCE_EXHAUSTED beyond the bounds of a walk (`core/src/limits/folder-walk.ts`) */
function localFilesBelow(location: string): string[] {
  if (!existsLocally(location)) return [];
  const files: string[] = [];
  const walk = new FolderWalk(excerpt(path.basename(location)));
  for (let folder = walk.next(); folder !== undefined; folder = walk.next()) {
    const at = path.join(location, folder.name);
    if (!walk.isNew(statSync(at))) continue;
    for (const entry of entriesOf(at)) {
      const name = walk.entry(folder, entry.name);
      const isLink = entry.isSymbolicLink();
      const facts = isLink ? statSync(path.join(location, name)) : entry;
      if (facts.isDirectory()) walk.descend(folder, name, isLink);
      else if (facts.isFile()) files.push(name);
    }
  }
  return files;
}

/** Entry by entry: a folder of millions is never listed whole. */
function* entriesOf(folder: string): Generator<Dirent> {
  const open = opendirSync(folder, { bufferSize: 256 });
  try {
    for (let entry = open.readSync(); entry !== null; entry = open.readSync()) yield entry;
  } finally {
    open.closeSync();
  }
}

/** Opens regular files only: a named pipe would block its reader forever, and a device has no end. */
function openLocalFile(location: string): OpenFile {
  const handle = openSync(location, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const facts = fstatSync(handle);
    if (!facts.isFile()) throw noFile(facts.isDirectory() ? "EISDIR" : "ENXIO");
    const { size } = facts;
    return {
      size,
      read: (position, target) => readSync(handle, target, 0, target.length, position),
      close: () => closeSync(handle),
    };
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

/** The system's own error for a path that is no regular file. */
function noFile(code: "EISDIR" | "ENXIO"): Error {
  return Object.assign(new Error(`${code}: not a regular file`), { code });
}
