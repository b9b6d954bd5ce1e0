// What reading models needs of any object store.

import { WinnowError, excerpt, writtenObject } from "@winnow/core";
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
  /** All objects below a prefix, ascending by key, at most 12 000 unless told. Rejects with RESOURCE_EXHAUSTED for more. */
  objects(url: ObjectUrl, most?: number): Promise<readonly StoredObject[]>;
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

/** What the head of an answer says of the bytes that follow; `undefined`: nothing. */
export interface RangeHead {
  readonly etag: string | undefined;
  readonly bytes: number | undefined;
  /** `bytes 0-99/1000`. */
  readonly range: string | undefined;
}

/** The answer has other bytes than those of the listed content. */
export const REPLACED = [
  "UNAVAILABLE",
  "it was replaced while it was read; it is read anew",
] as const;

/**
 * Refuses an answer whose headers announce other bytes than were asked for, before they are read: of another content, as
 * from a store that ignores the condition on the etag, or of another range or length.
 * @throws WinnowError UNAVAILABLE for another content; Error for another range
 */
export function assertAnswers(
  what: string,
  { etag, bytes, range }: RangeHead,
  wanted: ByteRange & { readonly etag: string },
): void {
  const [own, listed] = [plainEtag(etag), plainEtag(wanted.etag)];
  if (own !== "" && listed !== "" && own !== listed) {
    throw new WinnowError(REPLACED[0], `Cannot read ${excerpt(what)}: ${REPLACED[1]}`);
  }
  const why = wrongRange({ bytes, range }, wanted);
  if (why !== undefined) throw new Error(why);
}

/** What is wrong with the range or length of an answer. */
function wrongRange(
  { bytes, range }: Omit<RangeHead, "etag">,
  { start, end }: ByteRange,
): string | undefined {
  const length = end - start;
  const first = Number(/^bytes (\d+)-/.exec(range ?? "")?.[1] ?? 0);
  // A store that knows no ranges sends the whole object, whose beginning is no other range.
  if (first !== start) return `bytes from ${first} came in place of those from ${start}`;
  if (bytes === undefined || bytes === length) return undefined;
  return bytes > length
    ? `more than ${length} bytes came`
    : `of ${length} bytes that were asked for ${bytes} came`;
}

/** An ETag without quotes, and without the mark of proxies that compress. */
const plainEtag = (etag = ""): string => etag.replace(/^W\//, "").replaceAll('"', "");

/** The largest object of any of the stores is smaller. */
const OBJECT_BYTES_MAX = 2 ** 46;

/**
 * The objects of a listing, each once. A store that repeats itself while its contents change may list a key with two.
 * @throws WinnowError UNAVAILABLE for two contents of one key; FAILED_PRECONDITION for a size that is none
 */
export function distinctObjects(
  url: ObjectUrl,
  objects: readonly StoredObject[],
): readonly StoredObject[] {
  const byKey = new Map<string, StoredObject>();
  for (const object of objects) {
    const { key, bytes, etag } = object;
    const begin = `Cannot read ${excerpt(writtenObject(url, key))}`;
    if (!Number.isSafeInteger(bytes) || bytes < 0 || bytes > OBJECT_BYTES_MAX) {
      throw new WinnowError("FAILED_PRECONDITION", `${begin}: it is listed with ${bytes} bytes`);
    }
    const known = byKey.get(key);
    if (known !== undefined && (known.bytes !== bytes || known.etag !== etag)) {
      throw new WinnowError("UNAVAILABLE", `${begin}: it is listed twice, with two contents`);
    }
    byKey.set(key, object);
  }
  return [...byKey.values()];
}

/** Names directly below a prefix, and objects, at most: a directory of models has no more. */
const FOLDERS_MAX = 10_000;
/** Objects of a version, at most. */
export const OBJECTS_MAX = 12_000;

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
  { what, most = FOLDERS_MAX }: { readonly what: "folders" | "objects"; readonly most?: number },
): void {
  if (length <= most) return;
  const text = `${writtenObject(url, url.prefix)} holds more than ${most} ${what}: name a prefix further down`;
  throw new WinnowError("RESOURCE_EXHAUSTED", text);
}

/** Refuses an endpoint that is no URL, such as `minio:9000`. @throws WinnowError INVALID_ARGUMENT */
export function assertEndpoint(variable: string, value: string): void {
  if (value === "" || /^https?:\/\/./.test(value)) return;
  const text = `${variable} is "${excerpt(value)}", which is no URL: write http:// or https:// before it`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}
