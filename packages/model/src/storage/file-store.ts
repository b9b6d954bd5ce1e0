// Where files are: a local or mounted file system, or anything else that can list files, tell their sizes and read
// them by range. Reading is synchronous, as in model-version.ts.

import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  readdirSync,
  statSync,
} from "node:fs";
import path from "node:path";

/** A file that is open for reading. Its content must be that of one moment: a store detects replaced files. */
export interface OpenFile {
  readonly size: number;
  /**
   * Fills `target`, or a part of it from its beginning, with the bytes at a position of the file, and returns how
   * many they are; 0 only at the end of the file. Throws as the methods of `FileStore`.
   */
  read(position: number, target: Uint8Array): number;
  /** Says that a stretch will be read from its start to its end: a distant store fetches it ahead of the reader. */
  expect?(start: number, end: number): void;
  close(): void;
}

/** Files by location. Every method throws a system error, or a WinnowError with the code that it deserves. */
export interface FileStore {
  /** The location of a file or directory within a directory; the name has `/` between its parts. */
  join(directory: string, name: string): string;
  /** Whether there is a file or a directory. */
  exists(location: string): boolean;
  /** Names of the files below a directory at any depth, relative to it; none where there is no directory. */
  filesBelow(location: string): string[];
  open(location: string): OpenFile;
}

/** The local (or mounted) file system. */
export const localFiles: FileStore = {
  join: (directory, name) => path.join(directory, name),
  exists: (location) => existsSync(location),
  filesBelow: (location) => {
    if (!existsSync(location)) return [];
    const names = readdirSync(location, { recursive: true, encoding: "utf8" });
    return names.filter((name) => statSync(path.join(location, name)).isFile());
  },
  open: openLocalFile,
};

function openLocalFile(location: string): OpenFile {
  const handle = openSync(location, "r");
  try {
    const { size } = fstatSync(handle);
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
