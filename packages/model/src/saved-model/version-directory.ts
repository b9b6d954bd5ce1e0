// A version directory as files: which must exist, what an error says when one does not, and the
// fingerprint that tells two contents of one version number apart.
//
//   7/saved_model.pb   7/variables/variables.{index,data-…}   7/assets/…

import { createHash } from "node:crypto";
import path from "node:path";
import { type Fingerprint, WinnowError, excerpt, fingerprint } from "@winnow/core";
import {
  type ChecksumManifest,
  type FileDigest,
  MANIFEST_FILE,
  parseManifest,
} from "./checksum-manifest.ts";
import { readMessageFile } from "./message.ts";
import type { StoredDirectory } from "../storage/stored-directory.ts";

/** Name of the file that makes a directory a SavedModel. */
export const GRAPH_FILE = "saved_model.pb";
/** Table of contents of the checkpoint. */
export const INDEX_FILE = "variables/variables.index";
const ASSETS = "assets";
/** Protocol Buffers' own limit of a message. */
const GRAPH_BYTES_MAX = 2 ** 31 - 1;
const ASSET_BYTES_MAX = 2 ** 32 - 1;
const ASSET_FILES_MAX = 10_000;
const MANIFEST_BYTES_MAX = 2 ** 26;
const PIECE_BYTES = 2 ** 22;

/** Content of `saved_model.pb`. @throws WinnowError NOT_FOUND, UNIMPLEMENTED, RESOURCE_EXHAUSTED */
export function readGraphFile(directory: StoredDirectory): Uint8Array {
  if (!directory.has(GRAPH_FILE)) throw noGraph(directory);
  const file = directory.open(GRAPH_FILE);
  try {
    return readMessageFile(file, GRAPH_BYTES_MAX);
  } finally {
    file.close();
  }
}

/** Whether the version has variables; a model of constants alone has none. */
export function hasVariables(directory: StoredDirectory): boolean {
  return directory.has(INDEX_FILE);
}

/** The error for reading a variable of a version that has no variables. */
export function noVariables(): WinnowError {
  const text = `Cannot read the variables: there is no ${INDEX_FILE}; the copy may be incomplete`;
  return new WinnowError("NOT_FOUND", text);
}

/** Size and sha256 of a file's content. */
export function digestOf(content: Uint8Array): FileDigest {
  const sha256 = createHash("sha256").update(content).digest("hex");
  return { bytes: content.length, sha256 };
}

/** Size and sha256 of a file of the version directory, read in pieces. @throws WinnowError */
export function digestOfFile(directory: StoredDirectory, name: string): FileDigest {
  const file = directory.open(name);
  try {
    const hash = createHash("sha256");
    const piece = new Uint8Array(Math.min(PIECE_BYTES, file.size));
    for (let at = 0; at < file.size; at += piece.length) {
      const part = piece.subarray(0, Math.min(piece.length, file.size - at));
      file.read(at, part);
      hash.update(part);
    }
    return { bytes: file.size, sha256: hash.digest("hex") };
  } finally {
    file.close();
  }
}

/**
 * Fingerprint of a version's content: sha256 over names, sizes and checksums of all files that
 * determine what the version answers. Workers whose files differ in one byte therefore never count
 * as holding the same content.
 */
export function fingerprintOf(files: ReadonlyMap<string, FileDigest>): Fingerprint {
  const hash = createHash("sha256");
  for (const name of [...files.keys()].toSorted()) {
    const { bytes, sha256 } = files.get(name)!;
    hash.update(`${name}\0${bytes}\0${sha256}\n`);
  }
  return fingerprint(hash.digest("hex"));
}

/** The manifest of a version directory, if it has one. @throws WinnowError as `parseManifest` */
export function readManifest(directory: StoredDirectory): ChecksumManifest | undefined {
  if (!directory.has(MANIFEST_FILE)) return undefined;
  return parseManifest(directory.readAll(MANIFEST_FILE, MANIFEST_BYTES_MAX));
}

/**
 * Content of a file under `assets/`; a name that leads out of it is refused.
 * @throws WinnowError INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED
 */
export function readAsset(directory: StoredDirectory, asset: string): Uint8Array {
  const name = assetName(asset);
  const inside = name.startsWith(`${ASSETS}/`) && !path.isAbsolute(asset) && !asset.includes("\0");
  if (!inside) {
    const text = `Cannot read asset "${excerpt(asset)}": the name leads out of ${ASSETS}/`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  return directory.readAll(name, ASSET_BYTES_MAX, excerpt(name));
}

/** An asset's path in the version directory, from the name that the graph gives it. */
export function assetName(asset: string): string {
  return path.posix.join(ASSETS, asset);
}

/** Files under `assets/`, relative to the version directory. @throws WinnowError */
export function assetNames(directory: StoredDirectory): string[] {
  const names = directory.filesBelow(ASSETS);
  if (names.length > ASSET_FILES_MAX) {
    const text = `Cannot read ${ASSETS}/: it holds more than ${ASSET_FILES_MAX} files`;
    throw new WinnowError("RESOURCE_EXHAUSTED", text);
  }
  return names;
}

function noGraph(directory: StoredDirectory): WinnowError {
  if (!directory.isThere()) {
    return new WinnowError("NOT_FOUND", "Cannot read the version: there is no such directory");
  }
  if (directory.has("saved_model.pbtxt")) {
    const text = `it is a text SavedModel (saved_model.pbtxt); export it as ${GRAPH_FILE}`;
    return new WinnowError("UNIMPLEMENTED", `Cannot read the version: ${text}`);
  }
  const text = `Cannot read the version: there is no ${GRAPH_FILE} in it`;
  return new WinnowError("NOT_FOUND", text);
}
