// A version directory as files: what must be there, what to say when it is not, and the fingerprint
// that tells two contents of one version number apart.
//
//   7/saved_model.pb   7/variables/variables.{index,data-…}   7/assets/…

import { createHash } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { type Fingerprint, WinnowError, excerpt, fingerprint } from "@winnow/core";
import { type ReadAccount, RegionFile, fileError } from "./region.ts";

const GRAPH_FILE = "saved_model.pb";
const INDEX_FILE = "variables/variables.index";
const ASSETS = "assets";
/** Protocol Buffers' own limit of a message. */
const GRAPH_BYTES_MAX = 2 ** 31 - 1;
const ASSET_BYTES_MAX = 2 ** 32 - 1;
const ASSET_FILES_MAX = 10_000;
const PIECE_BYTES = 2 ** 22;

/** Content of `saved_model.pb`. @throws WinnowError NOT_FOUND, UNIMPLEMENTED, RESOURCE_EXHAUSTED */
export function readGraphFile(directory: string, account: ReadAccount): Uint8Array {
  const at = path.join(directory, GRAPH_FILE);
  if (!existsSync(at)) throw noGraph(directory);
  const file = new RegionFile(at, GRAPH_FILE, account);
  try {
    return file.readAll(GRAPH_BYTES_MAX);
  } finally {
    file.close();
  }
}

/** Whether the version has variables; a model of constants alone has none. */
export function hasVariables(directory: string): boolean {
  return existsSync(path.join(directory, INDEX_FILE));
}

/** The error for a tensor that is wanted where there are no variables. */
export function noVariables(): WinnowError {
  const text = `Cannot read the variables: there is no ${INDEX_FILE}; the copy may be incomplete`;
  return new WinnowError("NOT_FOUND", text);
}

/** sha256 over names, sizes and contents of everything that determines what the version answers. */
export function fingerprintOf(
  directory: string,
  graphBytes: Uint8Array,
  account: ReadAccount,
): Fingerprint {
  const hash = createHash("sha256");
  // The graph's bytes as they were read: the name belongs to the program made from them.
  hash.update(`${GRAPH_FILE}\0${graphBytes.length}\0`).update(graphBytes);
  const variables = hasVariables(directory) ? [INDEX_FILE] : [];
  for (const name of [...variables, ...assetNames(directory)]) {
    const file = new RegionFile(path.join(directory, name), name, account);
    try {
      hash.update(`${name}\0${file.size}\0`);
      for (let at = 0; at < file.size; at += PIECE_BYTES) {
        const piece = new Uint8Array(Math.min(PIECE_BYTES, file.size - at));
        file.read(at, piece);
        hash.update(piece);
      }
    } finally {
      file.close();
    }
  }
  return fingerprint(hash.digest("hex"));
}

/**
 * Content of a file under `assets/`; a name that leads out of it is refused.
 * @throws WinnowError INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED
 */
export function readAsset(directory: string, asset: string, account: ReadAccount): Uint8Array {
  const root = path.join(directory, ASSETS);
  const at = path.resolve(root, asset);
  const inside = at.startsWith(path.resolve(root) + path.sep) && !asset.includes("\0");
  if (!inside) {
    const text = `Cannot read asset "${excerpt(asset)}": the name leads out of ${ASSETS}/`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const file = new RegionFile(at, `${ASSETS}/${excerpt(asset)}`, account);
  try {
    return file.readAll(ASSET_BYTES_MAX);
  } finally {
    file.close();
  }
}

/** Files under `assets/`, sorted, relative to the version directory. */
function assetNames(directory: string): string[] {
  const root = path.join(directory, ASSETS);
  if (!existsSync(root)) return [];
  try {
    const names = readdirSync(root, { recursive: true, encoding: "utf8" })
      .map((name) => path.join(ASSETS, name))
      .filter((name) => statSync(path.join(directory, name)).isFile());
    if (names.length > ASSET_FILES_MAX) {
      const text = `Cannot read ${ASSETS}/: it holds more than ${ASSET_FILES_MAX} files`;
      throw new WinnowError("RESOURCE_EXHAUSTED", text);
    }
    return names.toSorted();
  } catch (error) {
    throw error instanceof WinnowError ? error : fileError(ASSETS, error);
  }
}

function noGraph(directory: string): WinnowError {
  if (!existsSync(directory)) {
    return new WinnowError("NOT_FOUND", "Cannot read the version: there is no such directory");
  }
  if (existsSync(path.join(directory, "saved_model.pbtxt"))) {
    const text = `it is a text SavedModel (saved_model.pbtxt); export it as ${GRAPH_FILE}`;
    return new WinnowError("UNIMPLEMENTED", `Cannot read the version: ${text}`);
  }
  const text = `Cannot read the version: there is no ${GRAPH_FILE} in it`;
  return new WinnowError("NOT_FOUND", text);
}
