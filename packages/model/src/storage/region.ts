// Stretches of bytes that can be read at any offset: a part of a data file, or memory that holds a
// constant of the graph in the same layout, so that one reader serves both. Files are read
// synchronously (see model-version.ts), every byte is counted, and a file that ends early is
// DATA_LOSS.

import { WinnowError, accessDeniedText } from "@winnow/core";
import type { OpenFile } from "./file-store.ts";
import { POINTER_HEAD_BYTES, refusePointer } from "./lfs-pointer.ts";

/** Bytes of one system call, at most; Linux reads no more than 2 GiB at once. */
const READ_BYTES_MAX = 2 ** 28;

/** Bytes of known length that can be read at any offset. */
export interface Region {
  readonly size: number;
  /** File name and tensor, for messages. */
  readonly name: string;
  /** File name alone, relative to the version directory. */
  readonly file: string;
  /** Bytes of that file. */
  readonly fileBytes: number;
  /** Fills `target` from `offset`. @throws WinnowError DATA_LOSS beyond the end */
  read(offset: number, target: Uint8Array): void;
  /** Announces that these bytes will be read in order, so that a remote store can fetch them in advance. */
  expect?(offset: number, bytes: number): void;
}

/** Counts the bytes read from files. */
export interface ReadAccount {
  bytesRead: number;
}

/** An open file. */
export class RegionFile {
  /** Relative to the version directory, for messages. */
  readonly name: string;
  readonly size: number;
  readonly #account: ReadAccount;
  #file: OpenFile | undefined;

  /** Owns the file, which `StoredDirectory.open` has opened. */
  constructor(file: OpenFile, name: string, account: ReadAccount) {
    this.name = name;
    this.size = file.size;
    this.#account = account;
    this.#file = file;
  }

  /**
   * Part of the file; `slice` says which slice of the tensor it is, if it is one.
   * @throws WinnowError DATA_LOSS when the file is too short for it
   */
  region(
    range: { readonly offset: number; readonly size: number },
    tensor: string,
    slice?: string,
  ): Region {
    const name = `${this.name}, tensor "${tensor}"${slice === undefined ? "" : `, ${slice}`}`;
    const end = range.offset + range.size;
    if (end > this.size) {
      this.refusePointer();
      const why = `it ends at byte ${this.size} instead of ${end}; it may be truncated`;
      throw new WinnowError("DATA_LOSS", `Cannot read ${name}: ${why}`);
    }
    return {
      size: range.size,
      name,
      file: this.name,
      fileBytes: this.size,
      read: (offset, target) => {
        if (offset < 0 || offset + target.length > range.size) throw outside(name, offset);
        this.read(range.offset + offset, target);
      },
      expect: (offset, bytes) => {
        const start = range.offset + offset;
        this.#file?.expect?.(start, start + bytes);
      },
    };
  }

  /** Fills `target` from a position of the file. @throws WinnowError DATA_LOSS, UNAVAILABLE */
  read(position: number, target: Uint8Array): void {
    const file = this.#file;
    if (file === undefined) {
      throw new WinnowError("FAILED_PRECONDITION", `${this.name} is closed`);
    }
    let done = 0;
    while (done < target.length) {
      const length = Math.min(READ_BYTES_MAX, target.length - done);
      // Most reads are of one piece, and a view for each of them would be memory to collect.
      const part = length === target.length ? target : target.subarray(done, done + length);
      const count = readOnce(file, this.name, { part, position: position + done });
      if (count === 0) {
        const why = `it ends at byte ${position + done}; it may be truncated`;
        throw new WinnowError("DATA_LOSS", `Cannot read ${this.name}: ${why}`);
      }
      done += count;
    }
    this.#account.bytesRead += done;
  }

  /** Refuses a pointer of Git LFS. @throws WinnowError DATA_LOSS */
  refusePointer(): void {
    const head = new Uint8Array(Math.min(this.size, POINTER_HEAD_BYTES));
    this.read(0, head);
    refusePointer(head, this.name);
  }

  /** The whole file. @throws WinnowError RESOURCE_EXHAUSTED over `bytesMax`, DATA_LOSS for a pointer of Git LFS */
  readAll(bytesMax: number): Uint8Array {
    if (this.size > bytesMax) {
      const why = `it has ${this.size} bytes, at most ${bytesMax} are read`;
      throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${this.name}: ${why}`);
    }
    const bytes = new Uint8Array(this.size);
    this.read(0, bytes);
    refusePointer(bytes, this.name);
    return bytes;
  }

  close(): void {
    this.#file?.close();
    this.#file = undefined;
  }
}

interface Piece {
  readonly part: Uint8Array;
  readonly position: number;
}

function readOnce(file: OpenFile, name: string, { part, position }: Piece): number {
  try {
    return file.read(position, part);
  } catch (error) {
    throw fileError(name, error);
  }
}

/** Memory as a region of a constant of this file. */
export function memoryRegion(bytes: Uint8Array, file: string, constant: string): Region {
  const name = `${file}, constant "${constant}"`;
  return {
    size: bytes.length,
    name,
    file,
    fileBytes: bytes.length,
    read: (offset, target) => {
      if (offset < 0 || offset + target.length > bytes.length) throw outside(name, offset);
      target.set(bytes.subarray(offset, offset + target.length));
    },
  };
}

/**
 * A failed system call as a WinnowError; the path is only in its cause. An error that a store has worded
 * itself is kept.
 */
export function fileError(name: string, error: unknown): WinnowError {
  if (error instanceof WinnowError) return error;
  const code = (error as { readonly code?: unknown }).code;
  const options = { cause: error };
  if (code === "ENOENT" || code === "ENOTDIR") {
    return new WinnowError("NOT_FOUND", `Cannot read ${name}: there is no such file`, options);
  }
  if (code === "EACCES" || code === "EPERM") {
    return new WinnowError(
      "PERMISSION_DENIED",
      `Cannot read ${name}: ${accessDeniedText()}`,
      options,
    );
  }
  if (code === "EISDIR") {
    return new WinnowError("DATA_LOSS", `Cannot read ${name}: it is a directory`, options);
  }
  if (code === "ENXIO") {
    const why = "it is no file but a pipe, a socket or a device";
    return new WinnowError("DATA_LOSS", `Cannot read ${name}: ${why}`, options);
  }
  if (code === "ELOOP") {
    return new WinnowError("DATA_LOSS", `Cannot read ${name}: its links lead in a circle`, options);
  }
  return new WinnowError("UNAVAILABLE", `Cannot read ${name}: ${String(code)}`, options);
}

function outside(name: string, offset: number): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${name}: byte ${offset} lies outside of it`);
}

/** A stretch of a region. */
export function regionWithin(
  region: Region,
  span: { readonly offset: number; readonly size: number },
): Region {
  const { name, file, fileBytes } = region;
  return {
    size: span.size,
    name,
    file,
    fileBytes,
    read(offset, target) {
      if (offset < 0 || offset + target.length > span.size) throw outside(name, offset);
      region.read(span.offset + offset, target);
    },
    expect: (offset, bytes) => region.expect?.(span.offset + offset, bytes),
  };
}
