// Where models lie in an object store: `s3://bucket/prefix`.

import { WinnowError, excerpt } from "./errors/errors.ts";

/** A prefix of keys in a bucket. */
export interface ObjectUrl {
  readonly bucket: string;
  /** Without slashes at its ends; "" is the whole bucket. */
  readonly prefix: string;
}

/** Whether a path of models is a URL: of an object store, or of something that is not read. */
export function isObjectUrl(location: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(location);
}

/** @throws WinnowError INVALID_ARGUMENT for another scheme, or without a bucket */
export function parseObjectUrl(url: string): ObjectUrl {
  const [, scheme = "", bucket = "", key = ""] = /^([^:]+):\/\/([^/]*)\/?(.*)$/s.exec(url) ?? [];
  if (scheme !== "s3") {
    const text = `Models cannot be read from ${excerpt(url)}: directories and s3://bucket/prefix are read; mount the bucket, or copy the model`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `${excerpt(url)} names no bucket: s3://bucket/prefix`,
    );
  }
  return { bucket, prefix: key.replaceAll(/^\/+|\/+$/g, "") };
}

/** The URL of something below another one. */
export function joinObjectUrl(url: string, name: string): string {
  return `${url.replace(/\/+$/, "")}/${name}`;
}
