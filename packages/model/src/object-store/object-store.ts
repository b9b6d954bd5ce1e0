// What reading models needs of any object store.

import { WinnowError, writtenObject } from "@winnow/core";
import type { ObjectBucket, ObjectUrl } from "@winnow/core";

/** An object in a listing. */
export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** Changes whenever the content does. */
  readonly etag: string;
}

/** A range of an object's bytes; `end` is excluded. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** A store of objects. Every method rejects with a WinnowError that says what to do. */
export interface ObjectStore {
  /** Names directly below a prefix that have something below them, at most 10 000. */
  folders(url: ObjectUrl): Promise<readonly string[]>;
  /** All objects below a prefix, ascending by key, at most 12 000. */
  objects(url: ObjectUrl): Promise<readonly StoredObject[]>;
  /**
   * Bytes of an object with the content that was listed under its etag. Rejects with UNAVAILABLE if the
   * object was replaced since.
   */
  read(
    bucket: ObjectBucket,
    object: Pick<StoredObject, "key" | "etag">,
    range: ByteRange,
  ): Promise<Uint8Array>;
}

/** Names directly below a prefix, and objects, at most: a directory of models has no more. */
const FOLDERS_MAX = 10_000;
const OBJECTS_MAX = 12_000;

/** Parts of one listing, at most: stores give a thousand names in each, but may give fewer, or none. */
const PAGES_MAX = 200;

/** Refuses a listing whose parts do not end. @throws WinnowError RESOURCE_EXHAUSTED */
export function assertPages(url: ObjectUrl, pages: number): void {
  if (pages <= PAGES_MAX) return;
  const text = `${writtenObject(url, url.prefix)} is listed in more than ${PAGES_MAX} parts`;
  throw new WinnowError("RESOURCE_EXHAUSTED", text);
}

/** Refuses a listing that is longer than its limit. @throws WinnowError RESOURCE_EXHAUSTED */
export function assertListable(
  url: ObjectUrl,
  { length }: { readonly length: number },
  what: "folders" | "objects",
): void {
  const most = what === "folders" ? FOLDERS_MAX : OBJECTS_MAX;
  if (length <= most) return;
  const text = `${writtenObject(url, url.prefix)} holds more than ${most} ${what}: name a prefix further down`;
  throw new WinnowError("RESOURCE_EXHAUSTED", text);
}
