// The compiled scan as TypeScript sees it. Handles are opaque. The memory behind a handle is freed
// by its release function, or else when the handle is garbage collected.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { WinnowError } from "@winnow/core";

/** A team of threads with the instructions it uses. */
export interface DeviceHandle {
  readonly brand: "winnow-device";
}

/** Rows in native memory. */
export interface TableHandle {
  readonly brand: "winnow-table";
}

/** Some rows of a table in native memory. */
export interface FilterHandle {
  readonly brand: "winnow-filter";
}

/** A search that can be cancelled. */
interface SearchHandle {
  readonly brand: "winnow-search";
}

/** Rows, dim, first global row, and whether the rows are searched (or gathered only). */
export type NativeTableShape = readonly [
  rows: number,
  dim: number,
  firstRow: number,
  isSearched: boolean,
];

/** The number that stands for no filter. */
export const NO_FILTER = 0xffff_ffff;

/** Arguments of a search, in the order of the addon's parameters. */
export type NativeQuery = readonly [
  tables: readonly TableHandle[],
  vectors: Float32Array,
  /** At most the number of rows of all tables. */
  k: number,
  /** All excluded rows; query i owns those from `excludedStarts[i]` to `excludedStarts[i + 1]`. */
  excludedRows: Uint32Array | undefined,
  excludedStarts: Uint32Array | undefined,
  /** Distinct filters: the handles of all tables for the first one, then those for the second. */
  filters: readonly FilterHandle[] | undefined,
  /** By query: the number of its filter, or `NO_FILTER`. */
  filterOf: Uint32Array | undefined,
  /**
   * Weights of the bound's row error, query error and norm, and of the rank in a sample at which a
   * threshold is guessed. All are 1 outside of tests.
   */
  boundWeights: Float64Array | undefined,
];

/** What a search found; query i owns positions [i · k, i · k + counts[i]). */
export interface NativeAnswer {
  readonly counts: Uint32Array;
  readonly scores: Float32Array;
  readonly rows: Uint32Array;
  /** Rows that were scored canonically after the filter. */
  readonly rescored: number;
  /** Queries whose guessed threshold was too high, so that they were filtered again. */
  readonly repeatedQueries: number;
  /** Queries of many rows that the filter could not serve. */
  readonly denseQueries: number;
  /** Queries whose row filter admits so few rows that all of them were scored. */
  readonly directQueries: number;
}

/** What a look into a folder found. */
export interface NativeFolder {
  /** Joined by slashes, in the order in which the file system gives them. */
  readonly names: string;
  /**
   * Four of each name: its kind (1 a file, 2 a folder, 0 anything else; links are followed), its bytes, and the times
   * of its last modification and change in milliseconds. Without facts only the kind is known.
   */
  readonly facts: Float64Array;
}

/**
 * What the addon's functions take and give has this number, which stands as `INTERFACE_VERSION` in
 * native/addon/addon.cpp too. It is raised with every change of `NativeAddon`.
 */
const ADDON_INTERFACE = 3;

/** The functions of the addon. Promises reject with `ENOMEM` or `ECANCELED` as the error's code. */
export interface NativeAddon {
  createDevice(
    threads: number,
    instructionSet: string | undefined,
  ): { readonly handle: DeviceHandle; readonly kernel: string };
  /** Ends the threads. No search may be under way. */
  releaseDevice(device: DeviceHandle): void;
  /**
   * Bytes that a table occupies until its release, and bytes needed in addition while it is built.
   */
  tableBytes(...shape: NativeTableShape): { readonly occupied: number; readonly building: number };
  createTable(...shape: NativeTableShape): TableHandle;
  /**
   * Copies values, which must not change until the promise settles. Resolves with the position of
   * the first value that is not finite, or else with the number of values. All appends of a table
   * end before `buildTable` is called.
   */
  appendRows(table: TableHandle, values: Float32Array): Promise<number>;
  buildTable(table: TableHandle): Promise<void>;
  gatherRows(table: TableHandle, localRows: Uint32Array, target: Float32Array): void;
  /** Frees the rows once no search uses them. */
  releaseTable(table: TableHandle): void;
  /** A number under which every thread of this process can have a handle of its own to the table. */
  shareTable(table: TableHandle): number;
  /**
   * A handle to a table that another thread has shared; `undefined` once that thread has released it. The
   * rows are freed when all handles are released.
   */
  sharedTable(number: number): TableHandle | undefined;
  /** Bit r & 7 of byte r >> 3 admits local row r; the bitmap is copied. */
  createFilter(
    table: TableHandle,
    admittedRows: Uint8Array,
  ): { readonly handle: FilterHandle; readonly admitted: number; readonly bytes: number };
  /** Frees the filter once no search uses it. */
  releaseFilter(filter: FilterHandle): void;
  /** A number under which every thread of this process can have a handle of its own to the filter. */
  shareFilter(filter: FilterHandle): number;
  /** A handle to a filter that another thread has shared; `undefined` once that thread has released it. */
  sharedFilter(number: number): FilterHandle | undefined;
  startSearch(
    device: DeviceHandle,
    ...query: NativeQuery
  ): { readonly handle: SearchHandle; readonly answer: Promise<NativeAnswer> };
  /**
   * Searches while the caller waits; `undefined`, before it scores them, if more than `denseValuesMax` values
   * (rows × dim × queries, below 2^32) had to be scored one by one. @throws Error with ENOMEM as its code
   */
  runSearch(device: DeviceHandle, ...query: NativeQuery): NativeAnswer;
  runSearch(
    device: DeviceHandle,
    ...query: readonly [...query: NativeQuery, denseValuesMax: number]
  ): NativeAnswer | undefined;
  cancelSearch(search: SearchHandle): void;
  /** The checks of rows (core/src/checksum/row-checks.ts) over the words from `start` to `end`. */
  extendChecksum(register: number, words: Int32Array, start: number, end: number): number;
  indexOfInfinite(words: Int32Array, start: number, end: number): number;
  /**
   * Looks into folders in one step of the thread pool; `withFacts` has a byte for each of them. `undefined` for one
   * that cannot be read, has more than `entriesMax` entries, or a name that is not ASCII.
   */
  lookIntoFolders(
    folders: readonly string[],
    withFacts: Uint8Array,
    entriesMax: number,
  ): Promise<readonly (NativeFolder | undefined)[]>;
  /** Ends the process with this code at once: no exit handler runs, and no thread is joined. */
  exitAtOnce(code: number): never;
}

/**
 * Whether a thread may wait for a small search. Without vector instructions even a small search takes so long
 * that another thread must run it.
 */
export function isFastKernel(kernel: string): boolean {
  return kernel !== "portable";
}

/** RESOURCE_EXHAUSTED for the addon's ENOMEM. */
export function outOfMemory(error: unknown): WinnowError | undefined {
  const isMemory = error instanceof Error && "code" in error && error.code === "ENOMEM";
  if (!isMemory) return undefined;
  return new WinnowError("RESOURCE_EXHAUSTED", `Cannot continue: ${error.message}`, {
    cause: error,
  });
}

/** Where an addon came from: a compiler on this machine, or Winnow's npm package. */
export type AddonOrigin = "built" | "prebuilt";

/** The addon, or why it is not available. */
export type LoadedAddon =
  | { readonly addon: NativeAddon; readonly origin: AddonOrigin; readonly reason?: undefined }
  | { readonly addon: undefined; readonly origin?: undefined; readonly reason: string };

/**
 * The folder of `npm run build:native` on this machine, and the one in the npm package, by platform and
 * architecture.
 */
const buildFolder = fileURLToPath(new URL("../../build/", import.meta.url));
const ADDON_FILE = "winnow-accelerator.node";

/** Every function of `NativeAddon`: the compiler refuses a list that is not complete. */
const FUNCTIONS = Object.keys({
  createDevice: true,
  releaseDevice: true,
  tableBytes: true,
  createTable: true,
  appendRows: true,
  buildTable: true,
  gatherRows: true,
  releaseTable: true,
  shareTable: true,
  sharedTable: true,
  createFilter: true,
  releaseFilter: true,
  shareFilter: true,
  sharedFilter: true,
  startSearch: true,
  runSearch: true,
  cancelSearch: true,
  extendChecksum: true,
  indexOfInfinite: true,
  lookIntoFolders: true,
  exitAtOnce: true,
} satisfies Record<keyof NativeAddon, true>);

/**
 * An addon, once it is known to have every function, with the arguments that are meant here.
 * @throws Error an addon that was compiled from other sources
 * @internal tests call it
 */
export function checkedAddon(loaded: object, file: string): NativeAddon {
  const difference = differenceOf(loaded);
  if (difference === undefined) return loaded as NativeAddon;
  const text = `${file} was compiled from other sources (${difference}): run npm run build:native`;
  throw new Error(text);
}

function differenceOf(loaded: object): string | undefined {
  const lacking = FUNCTIONS.filter((name) => typeof Reflect.get(loaded, name) !== "function");
  if (lacking.length > 0) return `without ${lacking.slice(0, 3).join(", ")}`;
  const version: unknown = Reflect.get(loaded, "interfaceVersion");
  if (version === ADDON_INTERFACE) return undefined;
  const named =
    typeof version === "number" ? `interface ${version}` : "an interface without number";
  return `${named}, where ${ADDON_INTERFACE} is needed`;
}

/** Loads the addon that was compiled on this machine or, if there is none, the one in the npm package. */
export function loadNativeAddon(): LoadedAddon {
  const machine = `${process.platform}-${process.arch}`;
  const candidates: readonly (readonly [AddonOrigin, string])[] = [
    ["built", path.join(buildFolder, "release", ADDON_FILE)],
    ["prebuilt", path.join(buildFolder, "prebuilt", machine, ADDON_FILE)],
  ];
  const faults: string[] = [];
  for (const [origin, file] of candidates) {
    if (!existsSync(file)) continue;
    try {
      const loaded = createRequire(import.meta.url)(file) as object;
      return { addon: checkedAddon(loaded, file), origin };
    } catch (error) {
      faults.push(error instanceof Error ? error.message : String(error));
    }
  }
  const reason =
    faults.length > 0
      ? `The native scan cannot be loaded: ${faults.join("; ")}`
      : "The native scan is not built (npm run build:native needs a C++ compiler)";
  return { addon: undefined, reason };
}
