// The fingerprint that tells two contents of one version number apart. It covers the files, and the tables
// that this release makes of them: releases of Winnow may read one file in different ways (one cuts an item
// table that another leaves in a dense part), and from there on the numbers of tables and partitions mean
// something else. Workers of such releases therefore never hold the same content, and no answer is merged
// from both.
//
// The number of partitions of a table is not covered: replicas of other cuts are recognised by it directly.

import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { FILE_DIGITS, fingerprint } from "@winnow/core";
import type { AttributeSpec, Fingerprint, TableSpec } from "@winnow/core";

/**
 * The fingerprint of a content: of its files, given by their own fingerprint, and of the tables made of them
 * with everything that describes these tables.
 */
export function contentFingerprint(
  files: Fingerprint,
  tables: readonly { readonly spec: TableSpec }[],
): Fingerprint {
  const hash = createHash("sha256");
  addValue(hash, tables);
  return joined(files, hash);
}

/** The fingerprint of a content that also has attributes: `sha256` is the digest of their file, in hex. */
export function describedFingerprint(
  content: Fingerprint,
  file: { readonly name: string; readonly sha256: string },
  attributes: readonly AttributeSpec[],
): Fingerprint {
  const files = createHash("sha256").update(
    `${content.slice(0, FILE_DIGITS)}\n${file.name}\0${file.sha256}`,
  );
  const reading = createHash("sha256").update(content.slice(FILE_DIGITS));
  addValue(reading, attributes);
  return joined(fingerprint(files.digest("hex")), reading);
}

function joined(files: Fingerprint, reading: Hash): Fingerprint {
  const digits = reading.digest("hex").slice(0, files.length - FILE_DIGITS);
  return fingerprint(`${files.slice(0, FILE_DIGITS)}${digits}`);
}

/**
 * Adds a value in its one canonical form: named fields in the order of their names, arrays of numbers as
 * their bytes.
 */
function addValue(hash: Hash, value: unknown): void {
  if (ArrayBuffer.isView(value)) {
    hash.update(`${value.constructor.name} ${value.byteLength}\n`);
    hash.update(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  } else if (Array.isArray(value)) {
    hash.update(`[${value.length}]\n`);
    for (const each of value) addValue(hash, each);
  } else if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).filter(
      ([name, field]) => field !== undefined && name !== "partitions",
    );
    hash.update(`{${fields.length}}\n`);
    for (const [name, field] of fields.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      hash.update(`${name}\n`);
      addValue(hash, field);
    }
  } else {
    const text = Object.is(value, -0) ? "-0" : String(value);
    hash.update(`${typeof value} ${text.length} ${text}\n`);
  }
}
