// What reading models needs of an object store, whichever it is.

import type { ObjectUrl } from "@winnow/core";

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
    bucket: string,
    object: Pick<StoredObject, "key" | "etag">,
    range: ByteRange,
  ): Promise<Uint8Array>;
}
