// Locations of models in object stores:
//
//   s3://bucket/prefix               Amazon S3 and compatible stores
//   gs://bucket/prefix               Google Cloud Storage
//   az://account/container/prefix    Azure Blob Storage

import { WinnowError, excerpt } from "./errors/errors.ts";

/** The kind of store. */
export type ObjectScheme = "s3" | "gs" | "az";

/** The bucket that holds an object. */
export interface ObjectBucket {
  readonly scheme: ObjectScheme;
  /** For Azure: `account/container`. */
  readonly bucket: string;
}

/** A prefix of keys in a bucket. */
export interface ObjectUrl extends ObjectBucket {
  /** Without slashes at its ends; "" is the whole bucket. */
  readonly prefix: string;
}

interface UrlForm {
  /** Splits the text after the scheme into bucket and prefix. */
  readonly pattern: RegExp;
  readonly missing: string;
}

const FORMS: Readonly<Record<ObjectScheme, UrlForm>> = {
  s3: {
    pattern: /^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/s,
    missing:
      "names no bucket: s3://bucket/prefix, its name 3 to 63 lower-case letters, digits, dots and hyphens",
  },
  gs: {
    pattern: /^([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:\/(.*))?$/s,
    missing:
      "names no bucket: gs://bucket/prefix, its name 3 to 222 lower-case letters, digits, dots, hyphens and underscores",
  },
  az: {
    pattern: /^([a-z0-9]{3,24}\/(?:\$root|\$web|[a-z0-9](?:-?[a-z0-9]){2,62}))(?:\/(.*))?$/s,
    missing:
      "names no storage account and container: az://account/container/prefix, the account 3 to 24 lower-case letters and digits, the container 3 to 63, with hyphens",
  },
};

/** Whether a location is meant as a URL: of an object store, slashes forgotten or not, or of a kind that Winnow does not read. */
export function isObjectUrl(location: string): boolean {
  return /^(?:[a-z][a-z0-9+.-]*:\/\/|(?:s3|gs|az):)/i.test(location);
}

/** Parses a URL. @throws WinnowError INVALID_ARGUMENT for another scheme, or without a bucket */
export function parseObjectUrl(url: string): ObjectUrl {
  const at = url.indexOf("://");
  const scheme = url.slice(0, Math.max(0, at));
  if (!isScheme(scheme)) {
    const text = `Models cannot be read from ${excerpt(url)}: directories, s3://bucket/prefix, gs://bucket/prefix and az://account/container/prefix are read; mount the store, or copy the model`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const { pattern, missing } = FORMS[scheme];
  const [, bucket, key = ""] = pattern.exec(url.slice(at + "://".length)) ?? [];
  if (bucket === undefined) {
    throw new WinnowError("INVALID_ARGUMENT", `${excerpt(url)} ${missing}`);
  }
  return { scheme, bucket, prefix: key.replaceAll(/^\/+|\/+$/g, "") };
}

function isScheme(text: string): text is ObjectScheme {
  return Object.hasOwn(FORMS, text);
}

/** The URL of a name below another URL. */
export function joinObjectUrl(url: string, name: string): string {
  return `${url.replace(/\/+$/, "")}/${name}`;
}

/** A bucket, or an object or prefix in it, as its URL. */
export function writtenObject({ scheme, bucket }: ObjectBucket, key: string): string {
  return `${scheme}://${bucket}/${key}`;
}
