// The fingerprint by which two contents of one version number are told apart: of the files, and of what is
// made of them. Releases of Winnow may read one file in different ways: one cuts an item table that another
// leaves in a dense part, and from there on the numbers of tables, and of partitions, mean something else. Workers
// of both never hold the same content, so no answer is made of both.
//
// How often a table is cut is no part of it: replicas of other cuts are told by their number of partitions.

import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { FILE_DIGITS, fingerprint } from "@winnow/core";
import type { AttributeSpec, Fingerprint, TableSpec } from "@winnow/core";

/** The fingerprint of files, whose own fingerprint this is, from which these tables, with all that describes them, are made. */
export function contentFingerprint(
  files: Fingerprint,
  tables: readonly { readonly spec: TableSpec }[],
): Fingerprint {
  const hash = createHash("sha256");
  addValue(hash, tables);
  return joined(files, hash);
}

/** The fingerprint of a content with one file more, whose digest in hex this is, that gives tables these attributes. */
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

/** Adds a value in one way of writing it: named fields in the order of their names, arrays of numbers by their bytes. */
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
