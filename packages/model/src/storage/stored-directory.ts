// A version directory in a store of files. Readers of all formats open their files through it, so that a format is
// never tied to a kind of storage, and every byte that is read is counted.

import path from "node:path";
import { excerpt } from "@winnow/core";
import { type FileStore, localFiles } from "./file-store.ts";
import { RegionFile, fileError } from "./region.ts";

/** A version directory; counts the bytes that are read from its files. */
export class StoredDirectory {
  /** As the store names it. */
  readonly location: string;
  readonly store: FileStore;
  bytesRead = 0;

  constructor(location: string, store: FileStore = localFiles) {
    this.location = location;
    this.store = store;
  }

  /** Whether there is a file or folder of this name. @throws WinnowError if that cannot be told */
  has(name: string): boolean {
    return this.#exists(this.store.join(this.location, name), path.dirname(name));
  }

  /** Whether the directory itself is there. @throws WinnowError if that cannot be told */
  isThere(): boolean {
    return this.#exists(this.location, ".");
  }

  /** `folder`: what cannot be read, if that is the fault. */
  #exists(location: string, folder: string): boolean {
    try {
      return this.store.exists(location);
    } catch (error) {
      throw fileError(folder === "." ? excerpt(this.location) : folder, error);
    }
  }

  /** Names of the files below a folder at any depth, relative to the version directory. @throws WinnowError */
  filesBelow(folder: string): string[] {
    try {
      const names = this.store.filesBelow(this.store.join(this.location, folder));
      return names.map((name) => path.join(folder, name));
    } catch (error) {
      throw fileError(folder, error);
    }
  }

  /**
   * Opens a file; messages call it `shownAs`.
   * @throws WinnowError NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE
   */
  open(name: string, shownAs: string = name): RegionFile {
    try {
      return new RegionFile(this.store.open(this.store.join(this.location, name)), shownAs, this);
    } catch (error) {
      throw fileError(shownAs, error);
    }
  }

  /** The whole content of a file. @throws WinnowError as `open`, RESOURCE_EXHAUSTED over `bytesMax` */
  readAll(name: string, bytesMax: number, shownAs: string = name): Uint8Array {
    const file = this.open(name, shownAs);
    try {
      return file.readAll(bytesMax);
    } finally {
      file.close();
    }
  }
}
