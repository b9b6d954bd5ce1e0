// Versions of an object store as directories: small files are downloaded, and files with rows are empty files
// of the right size, whose ranges are read from the store when they are needed (`range-reader.ts`). So a
// worker reads only the rows of its partitions, and all code that reads directories can read these.
//
//   s3://models/movies/7/saved_model.pb            <folder>/1/movies/7/saved_model.pb           downloaded
//   s3://models/movies/7/variables/variables.data  <folder>/1/movies/7/variables/variables.data  a hole

import { closeSync, ftruncateSync, mkdirSync, openSync, readdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type ObjectBucket,
  type ObjectUrl,
  TaskSlots,
  WinnowError,
  excerpt,
  makeDirectorySync,
  parseObjectUrl,
} from "@winnow/core";
import { MODEL_FILES, withoutModel } from "../model-directory.ts";
import { diskError } from "./disk-error.ts";
import { type ObjectStore, type StoredObject, distinctObjects } from "./object-store.ts";
import type { RemoteFile } from "./range-reader.ts";

/** Files that are read by range, from this size on. */
const ROWS_FILE = /^variables\/variables\.data-|^[^/]+\.(?:safetensors|npy|parquet)$/;
const ROWS_FILE_BYTES_MIN = 2 ** 16;
/** Pieces that are downloaded at the same time, of all versions that are being opened, and bytes of one. */
const DOWNLOADS_AT_ONCE = 8;
const PIECE_BYTES = 2 ** 22;
/** Bytes that may be downloaded of a version: graphs, vocabularies, attributes. */
const DOWNLOAD_BYTES_MAX = 2 ** 36;
const FOLDER = "winnow-objects-";

/** A version directory on this machine. */
export interface MirroredVersion {
  readonly directory: string;
  /** Removes the directory. */
  release(): void;
}

/** Where the mirror registers files that are read by range. */
interface RemoteFiles {
  add(path: string, file: RemoteFile): void;
  delete(path: string): void;
}

/** What a mirror is made from. */
export interface MirrorParts {
  readonly store: ObjectStore;
  readonly files: RemoteFiles;
  /** Where the mirror's folder is made. Default: the system's directory for temporary files. */
  readonly parent?: string;
}

/** Directories of versions in an object store, on this machine's disk, until they are released. */
export class ObjectMirror {
  readonly #parts: MirrorParts;
  readonly #parent: string;
  readonly #downloads = new TaskSlots(DOWNLOADS_AT_ONCE);
  #folder: string | undefined;
  #count = 0;

  constructor(parts: MirrorParts) {
    this.#parts = parts;
    this.#parent = parts.parent ?? tmpdir();
  }

  /**
   * Makes the directory of a version. @throws WinnowError as the store does; NOT_FOUND where there is no
   * model; RESOURCE_EXHAUSTED if the disk is full
   */
  async open(url: string): Promise<MirroredVersion> {
    const place = parseObjectUrl(url);
    const objects = distinctObjects(place, await this.#parts.store.objects(place));
    const files = objects.map((object) => ({
      object,
      name: object.key.slice(place.prefix.length + 1),
    }));
    assertDistinctFiles(files.map(({ name }) => name));
    if (!files.some(({ name }) => MODEL_FILES.includes(name))) {
      throw withoutModel(
        url,
        files.map(({ name }) => name),
      );
    }
    const whole = files.filter(({ name, object }) => !isRowsFile(name, object));
    assertSmall(url, whole);
    const directory = this.#newDirectory(url, place);
    const holes: string[] = [];
    const release = (): void => {
      for (const hole of holes) this.#parts.files.delete(hole);
      rmSync(path.resolve(directory, "../.."), { recursive: true, force: true });
    };
    try {
      for (const { name, object } of files) {
        const at = placeIn(directory, name);
        makeDirectorySync(path.dirname(at));
        if (!isRowsFile(name, object)) {
          makeHole(at, 0);
          continue;
        }
        makeHole(at, object.bytes);
        this.#parts.files.add(at, { bucket: place, object });
        holes.push(at);
      }
      await this.#download(place, directory, whole);
    } catch (error) {
      release();
      throw diskError(url, error, { folder: this.#parent, neededBytes: bytesOf(whole) });
    }
    return { directory, release };
  }

  /** Removes everything that the mirror made. */
  close(): void {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
    this.#folder = undefined;
  }

  /** A directory whose name ends like the URL, because messages name model and version. */
  #newDirectory(url: string, { bucket, prefix }: ObjectUrl): string {
    try {
      this.#folder ??= newFolder(this.#parent);
    } catch (error) {
      throw diskError(url, error, { folder: this.#parent });
    }
    this.#count += 1;
    const [model = bucket, version = "0"] = [bucket, ...prefix.split("/")].slice(-2);
    return path.join(this.#folder, String(this.#count), safeName(model), safeName(version));
  }

  async #download(
    bucket: ObjectBucket,
    directory: string,
    files: readonly NamedObject[],
  ): Promise<void> {
    const left = piecesOf(directory, files);
    const failed = new AbortController();
    const downloads = Array.from({ length: DOWNLOADS_AT_ONCE }, async () => {
      for (const piece of left) {
        failed.signal.throwIfAborted();
        await this.#downloads.run(() => this.#downloadPiece(bucket, piece, failed.signal));
      }
    });
    // Once one has failed, the others end at their next piece: their files are removed, and must take no more room.
    for (const download of downloads) download.catch((error: unknown) => failed.abort(error));
    await Promise.allSettled(downloads);
    failed.signal.throwIfAborted();
  }

  async #downloadPiece(
    bucket: ObjectBucket,
    { object, at, start, end }: Piece,
    signal: AbortSignal,
  ): Promise<void> {
    const bytes = await this.#parts.store.read(bucket, object, { start, end });
    signal.throwIfAborted();
    const file = await open(at, "r+");
    try {
      // On a disk that is nearly full a write takes a part, and the next one fails.
      for (let done = 0; done < bytes.length;) {
        done += (await file.write(bytes, done, bytes.length - done, start + done)).bytesWritten;
      }
    } finally {
      await file.close();
    }
  }
}

/** A part of a file that is downloaded. */
interface Piece {
  readonly object: StoredObject;
  readonly at: string;
  readonly start: number;
  readonly end: number;
}

function* piecesOf(directory: string, files: readonly NamedObject[]): Generator<Piece> {
  for (const { name, object } of files) {
    for (let start = 0; start < object.bytes; start += PIECE_BYTES) {
      const end = Math.min(object.bytes, start + PIECE_BYTES);
      yield { object, at: placeIn(directory, name), start, end };
    }
  }
}

interface NamedObject {
  /** Name relative to the version. */
  readonly name: string;
  readonly object: StoredObject;
}

function isRowsFile(name: string, { bytes }: StoredObject): boolean {
  return bytes >= ROWS_FILE_BYTES_MIN && ROWS_FILE.test(name);
}

const bytesOf = (files: readonly NamedObject[]): number =>
  files.reduce((sum, { object }) => sum + object.bytes, 0);

/** Refuses a version with too much to download. @throws WinnowError RESOURCE_EXHAUSTED */
function assertSmall(url: string, files: readonly NamedObject[]): void {
  const bytes = bytesOf(files);
  if (bytes <= DOWNLOAD_BYTES_MAX) return;
  const text = `its files beside those of rows have ${bytes} bytes, at most ${DOWNLOAD_BYTES_MAX} are read`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot open ${excerpt(url)}: ${text}`);
}

/** Refuses keys of one file, as `a//b` and `a/b` are: which of them it holds would be chance. @throws WinnowError INVALID_ARGUMENT */
function assertDistinctFiles(names: readonly string[]): void {
  const nameAt = new Map<string, string>();
  for (const name of names) {
    const at = path.normalize(name);
    const other = nameAt.get(at);
    if (other !== undefined) {
      const text = `The keys ${excerpt(other)} and ${excerpt(name)} are one file; remove one of them`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    nameAt.set(at, name);
  }
}

/** A key may be any text, but its file must be within the directory. @throws WinnowError INVALID_ARGUMENT */
function placeIn(directory: string, name: string): string {
  const at = path.resolve(directory, name);
  if (at.startsWith(directory + path.sep) && !name.includes("\0")) return at;
  throw new WinnowError("INVALID_ARGUMENT", `The key ${excerpt(name)} leads out of its version`);
}

const safeName = (name: string): string => name.replaceAll(/[^\w.-]|^\.+$/g, "_");

function makeHole(at: string, bytes: number): void {
  const handle = openSync(at, "w");
  try {
    ftruncateSync(handle, bytes);
  } finally {
    closeSync(handle);
  }
}

/** Removes what threads of this process have mirrored, when the process ends: threads that are terminated do not. */
export function removeMirrors(): void {
  removeFolders(tmpdir(), (owner) => owner === process.pid);
}

function removeFolders(parent: string, isMeant: (owner: number) => boolean): void {
  for (const name of readdirSync(parent)) {
    const owner = name.startsWith(FOLDER) ? Number(name.slice(FOLDER.length).split("-")[0]) : 0;
    if (owner > 0 && isMeant(owner)) {
      rmSync(path.join(parent, name), { recursive: true, force: true });
    }
  }
}

/** Makes a folder for this process, and removes those that dead processes have left. */
function newFolder(parent: string): string {
  removeFolders(parent, (owner) => !isAlive(owner));
  const folder = path.join(parent, `${FOLDER}${process.pid}-${process.hrtime.bigint()}`);
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}

function isAlive(processId: number): boolean {
  try {
    process.kill(processId, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
