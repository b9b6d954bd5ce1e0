// What reading models needs of an object store, whichever it is.

import { WinnowError, writtenObject } from "@winnow/core";
import type { ObjectBucket, ObjectUrl } from "@winnow/core";

/** An object as it was listed. */
export interface StoredObject {
  readonly key: string;
  readonly bytes: number;
  /** Changes with the content. */
  readonly etag: string;
}

/** Bytes of an object, `end` excluded. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** A store of objects. Every method rejects with a WinnowError that says what to do. */
export interface ObjectStore {
  /** Names directly below a prefix that have something below themselves, at most 10 000. */
  folders(url: ObjectUrl): Promise<readonly string[]>;
  /** All objects below a prefix, ascending by key, at most 12 000. */
  objects(url: ObjectUrl): Promise<readonly StoredObject[]>;
  /**
   * Bytes of an object as it was when its etag was listed. Rejects with UNAVAILABLE where it was replaced
   * since.
   */
  read(
    bucket: ObjectBucket,
    object: Pick<StoredObject, "key" | "etag">,
    range: ByteRange,
  ): Promise<Uint8Array>;
}

/** Names directly below a prefix, and objects: more of them are no directory of models. */
const FOLDERS_MAX = 10_000;
const OBJECTS_MAX = 12_000;

/** @throws WinnowError RESOURCE_EXHAUSTED for a listing that is longer than its limit */
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
