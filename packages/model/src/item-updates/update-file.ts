// The file beside a version that changes its items one by one, `assets.extra/item-updates.jsonl`: a line for each change,
// of which the last one of an item counts, so that a job can append to it.
//
//   {"id": "Heat (1995)", "vector": [0.12, -0.4]}     a new item, or another vector of an item that the model has
//   {"id": "Alien (1979)", "removed": true}           an item that no search returns any more

import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { IdIndex, StringColumn, WinnowError, assertFreeMemory, excerpt } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { RegionFile } from "../storage/region.ts";
import type { StoredDirectory } from "../storage/stored-directory.ts";
import type { FileDigest } from "../saved-model/checksum-manifest.ts";
import { checkUtf8 } from "../storage/utf8-lines.ts";
import { blocksOf } from "../attributes/lines.ts";
import { keysWritten, repeatedKey } from "../attributes/repeated-keys.ts";
import { withMoreChanges } from "./change-set.ts";
import type { ItemChangeSet } from "./change-set.ts";
import { PlainLineReader } from "./plain-line.ts";
import { VectorPieces } from "./vector-pieces.ts";

/** Relative to the version directory. */
export const UPDATE_FILE = "assets.extra/item-updates.jsonl";

const FILE_BYTES_MAX = 2 ** 30;
/** How much may change before the model is to be exported anew: the vectors stay in memory, beside the rows made of them. */
const UPDATE_LIMITS: UpdateLimits = { itemsMax: 2 ** 20, valuesMax: 2 ** 25 };
/** Read at once where no line is looked at. */
const PIECE_BYTES = 2 ** 20;
const BYTE_ORDER_MARK = Buffer.from("\uFEFF");
const NEWLINE = 10;
/** Memory for a byte of the file while it is read. */
const READING_RATIO = 2;
/** Bytes of UTF-8 cannot hold it: two ids with different halves would be one. */
const HALF_PAIR = /\p{Surrogate}/u;
const INTEGER = /^-?(?:0|[1-9]\d*)$/;

/** What the items of a table are. */
export interface UpdatedItems {
  /** Name of the table, for messages. */
  readonly table: string;
  readonly idDtype: "string" | "int32" | "int64";
  readonly vectors: UpdatedVectors;
}

/** What vectors there may be, or why the model takes none. */
export type UpdatedVectors =
  | {
      /** Values of a vector. */
      readonly dim: number;
      /** The nearest number that the table stores. */
      readonly round: (value: number) => number;
      readonly obstacle?: undefined;
    }
  | { readonly obstacle: string };

/** What a file may change. */
interface UpdateLimits {
  /** Items that it names. */
  readonly itemsMax: number;
  /** Values of all vectors together. */
  readonly valuesMax: number;
}

/** The content of the file. Never changed, so that several contents of a version may share it. */
export interface ItemUpdates extends ItemChangeSet {
  readonly digest: FileDigest;
  /** What the items were when it was read. */
  readonly items: UpdatedItems;
  /** Number of its lines. */
  readonly lines: number;
  /** Whether the last one has an end: then what follows it is another line. */
  readonly isEnded: boolean;
}

/** How a file is read. */
export interface UpdateReading {
  readonly limits?: UpdateLimits;
  /** The file as it was read before: only the lines behind it are read where it has grown. */
  readonly before?: ItemUpdates | undefined;
  /** Only so many bytes are read. */
  readonly bytesMax?: number | undefined;
}

/** Reads the file. @throws WinnowError INVALID_ARGUMENT naming the line, DATA_LOSS, RESOURCE_EXHAUSTED */
export function readItemUpdates(
  directory: StoredDirectory,
  items: UpdatedItems,
  { limits = UPDATE_LIMITS, before, bytesMax = Infinity }: UpdateReading = {},
): ItemUpdates {
  const whole = directory.open(UPDATE_FILE);
  const file = startOf(whole, bytesMax);
  try {
    if (file.size > FILE_BYTES_MAX) {
      throw tooMuch(`it has ${file.size} bytes, at most ${FILE_BYTES_MAX} are read`);
    }
    assertFreeMemory(`Reading ${UPDATE_FILE}`, READING_RATIO * file.size);
    const reading = { file, items, limits };
    const grown = before && readGrown(reading, before);
    return grown ?? readLines(reading, { bytes: 0, lines: 0, hash: createHash("sha256") });
  } finally {
    whole.close();
  }
}

/** Bytes of a file, from its first one on. */
type FileStart = Pick<RegionFile, "name" | "size" | "read">;

function startOf(file: RegionFile, bytes: number): FileStart {
  return {
    name: file.name,
    size: Math.min(file.size, bytes),
    read: (at, target) => file.read(at, target),
  };
}

interface FileReading {
  readonly file: FileStart;
  readonly items: UpdatedItems;
  readonly limits: UpdateLimits;
}

/** Whole lines that were read before, and the hash of their bytes. */
interface ReadBefore {
  readonly bytes: number;
  readonly lines: number;
  readonly hash: Hash;
}

/** Reads the lines behind these. The digest is that of the file. */
function readLines(
  { file, items, limits }: FileReading,
  { bytes, lines: before, hash }: ReadBefore,
): ItemUpdates {
  const changes = new Changes(items, limits);
  let lines = before;
  let isEnded = true;
  for (const block of blocksOf(file, "write one object in each line", bytes)) {
    hash.update(block);
    lines = addLines(changes, { file, block, line: lines });
    isEnded = block.at(-1) === NEWLINE;
  }
  const digest = { bytes: file.size, sha256: hash.digest("hex") };
  return { digest, items, lines, isEnded, ...changes.finish() };
}

/**
 * What the file says if it begins with all that it was before; `undefined` if it does not, or says too much, which reading
 * all of it tells with the line.
 */
function readGrown(reading: FileReading, before: ItemUpdates): ItemUpdates | undefined {
  const { file, items, limits } = reading;
  if (!haveSameVectors(items, before.items)) return undefined;
  const { digest, lines, isEnded } = before;
  const { bytes } = digest;
  const hasGrown = isEnded && file.size > bytes;
  if (!hasGrown && file.size !== bytes) return undefined;
  const hash = hashOfStart(file, bytes);
  if (hash.copy().digest("hex") !== digest.sha256) return undefined;
  if (!hasGrown) return before;
  try {
    const more = readLines(reading, { bytes, lines, hash });
    const all = withMoreChanges(before, more);
    const isTooMuch =
      all.names.data.length > limits.itemsMax || all.values.length > limits.valuesMax;
    return isTooMuch ? undefined : { ...more, ...all };
  } catch (error) {
    if (error instanceof WinnowError && error.code === "RESOURCE_EXHAUSTED") return undefined;
    throw error;
  }
}

function hashOfStart(file: FileStart, bytes: number): Hash {
  const hash = createHash("sha256");
  const piece = Buffer.allocUnsafeSlow(Math.min(bytes, PIECE_BYTES));
  for (let at = 0; at < bytes; at += piece.length) {
    const read = piece.subarray(0, Math.min(piece.length, bytes - at));
    file.read(at, read);
    hash.update(read);
  }
  return hash;
}

/** Whether a line means the same for both. */
function haveSameVectors(a: UpdatedItems, b: UpdatedItems): boolean {
  if (a.idDtype !== b.idDtype) return false;
  if (a.vectors.obstacle !== undefined || b.vectors.obstacle !== undefined) {
    return a.vectors.obstacle === b.vectors.obstacle;
  }
  return a.vectors.dim === b.vectors.dim && a.vectors.round === b.vectors.round;
}

interface LinesAt {
  readonly file: FileStart;
  readonly block: Buffer;
  /** Number of lines before the block. */
  readonly line: number;
}

/** Adds the lines of a block; gives the number of the last one. */
function addLines(changes: Changes, { file, block, line: before }: LinesAt): number {
  checkUtf8(file, block, before + 1);
  const isMarked =
    before === 0 && block.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  let line = before;
  for (let from = isMarked ? BYTE_ORDER_MARK.length : 0; from < block.length;) {
    const found = block.indexOf(NEWLINE, from);
    const end = found < 0 ? block.length : found;
    line += 1;
    try {
      changes.add(block, from, end);
    } catch (error) {
      if (!(error instanceof WinnowError)) throw error;
      throw new WinnowError(
        error.code,
        `Cannot read ${UPDATE_FILE}, line ${line}: ${error.message}`,
      );
    }
    from = end + 1;
  }
  return line;
}

/** In place of the number of a vector. */
const REMOVED = -1;

/** The changes of each item, the last one of which counts. */
class Changes {
  readonly #items: UpdatedItems;
  readonly #limits: UpdateLimits;
  readonly #plain: PlainLineReader;
  /** The vector of each item, by number; in the order of the last changes. */
  readonly #last = new Map<string | bigint, number>();
  readonly #vectors: VectorPieces;

  constructor(items: UpdatedItems, limits: UpdateLimits) {
    this.#items = items;
    this.#limits = limits;
    const { vectors } = items;
    const { dim, round } =
      vectors.obstacle === undefined ? vectors : { dim: 0, round: Math.fround };
    this.#plain = new PlainLineReader(dim, round);
    this.#vectors = new VectorPieces(dim);
  }

  /** Adds the change of a line between two positions, if it is not empty. @throws WinnowError without the file's name */
  add(bytes: Buffer, from: number, end: number): void {
    const plain = this.#plain;
    if (plain.read(bytes, from, end)) {
      this.#set(this.#idOf(plain.id), plain.isRemoved ? undefined : plain.vector);
      return;
    }
    const text = bytes.toString("utf8", from, end);
    if (text.trim() === "") return;
    const fields = fieldsOf(text);
    const id = this.#idOf(fields.id);
    this.#set(id, this.#vectorOf(fields));
  }

  /** `undefined` for an item that is removed. */
  #set(id: string | bigint, vector: Float32Array | undefined): void {
    const before = this.#last.get(id);
    if (before !== undefined) {
      this.#last.delete(id);
      if (before !== REMOVED) this.#vectors.free(before);
    }
    this.#last.set(id, vector === undefined ? REMOVED : this.#vectors.add(vector));
    const { itemsMax, valuesMax } = this.#limits;
    const { values } = this.#vectors;
    if (this.#last.size <= itemsMax && values <= valuesMax) return;
    const found = `${this.#last.size} items change, with ${values} values of vectors`;
    const most = `up to ${itemsMax} items and ${valuesMax} values are read`;
    throw new WinnowError("RESOURCE_EXHAUSTED", `${found}; ${most}: export the model anew`);
  }

  finish(): ItemChangeSet {
    const names = [...this.#last.keys()];
    const hasVector = Uint8Array.from(this.#last.values(), (vector) =>
      vector === REMOVED ? 0 : 1,
    );
    const kept = names.filter((_, at) => hasVector[at] === 1);
    const numbers = [...this.#last.values()].filter((vector) => vector !== REMOVED);
    const tensor = this.#tensorOf(names);
    return {
      names: tensor,
      hasVector,
      changed: IdIndex.of(tensor),
      ids: kept.length === names.length ? tensor : this.#tensorOf(kept),
      values: this.#vectors.take(numbers),
    };
  }

  #tensorOf(ids: readonly (string | bigint)[]): Tensor {
    const { idDtype } = this.#items;
    const shape = [ids.length];
    switch (idDtype) {
      case "string":
        return { dtype: "string", shape, data: StringColumn.fromText(ids as string[]) };
      case "int32":
        return { dtype: "int32", shape, data: Int32Array.from(ids, Number) };
      case "int64":
        return { dtype: "int64", shape, data: BigInt64Array.from(ids as bigint[]) };
    }
  }

  #idOf(id: unknown): string | bigint {
    const { idDtype, table } = this.#items;
    if (idDtype === "string") {
      if (typeof id === "string") return id;
      throw invalid(`its "id" is no text, as the ids of table "${excerpt(table)}" are`);
    }
    const isInteger =
      Number.isSafeInteger(id) || (typeof id === "string" && id.length <= 20 && INTEGER.test(id));
    const integer = isInteger ? BigInt(id as string | number) : undefined;
    const bits = idDtype === "int32" ? 32 : 64;
    if (integer !== undefined && BigInt.asIntN(bits, integer) === integer) return integer;
    const remedy = bits === 64 ? "; write one of 2^53 or more as a text" : "";
    throw invalid(
      `its "id" is no ${idDtype}, as the ids of table "${excerpt(table)}" are${remedy}`,
    );
  }

  /** `undefined` for an item that is removed. */
  #vectorOf({ vector, removed }: UpdateFields): Float32Array | undefined {
    if (removed !== undefined) {
      if (removed === true && vector === undefined) return undefined;
      throw invalid(
        '"removed" is true, and without a "vector" beside it, where an item is removed',
      );
    }
    const { table, vectors } = this.#items;
    if (vectors.obstacle !== undefined) {
      const text = `the model takes no vectors of more items: ${vectors.obstacle}; export it with them`;
      throw new WinnowError("UNIMPLEMENTED", text);
    }
    const { dim, round } = vectors;
    if (!Array.isArray(vector) || vector.length !== dim) {
      const found = Array.isArray(vector) ? `has ${vector.length} values` : "is no list of numbers";
      throw invalid(
        `its "vector" ${found} where table "${excerpt(table)}" stores ${dim} for each item`,
      );
    }
    const values = new Float32Array(dim);
    for (let at = 0; at < dim; at += 1) {
      const value = vector[at] as unknown;
      const rounded = typeof value === "number" ? round(Math.fround(value)) : NaN;
      if (!Number.isFinite(rounded)) {
        throw invalid(`value ${at} of its "vector" is no number that the model's table can store`);
      }
      values[at] = rounded;
    }
    return values;
  }
}

interface UpdateFields {
  readonly id: unknown;
  readonly vector: unknown;
  readonly removed: unknown;
}

const FIELDS: ReadonlySet<string> = new Set(["id", "vector", "removed"]);

function fieldsOf(text: string): UpdateFields {
  const value = parsedOrNot(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(`it is no JSON object: ${excerpt(text).slice(0, 80)}`);
  }
  const fields = value as Partial<UpdateFields>;
  const names = Object.keys(fields);
  if (keysWritten(text) > names.length) {
    const twice = repeatedKey(text);
    if (twice !== undefined) throw invalid(`it has the key "${excerpt(twice)}" twice`);
  }
  const stranger = names.find((name) => !FIELDS.has(name));
  if (stranger !== undefined) {
    const where = "attributes of items belong in assets.extra/items.jsonl, .csv or .parquet";
    throw invalid(`"${excerpt(stranger)}" is none of id, vector and removed; ${where}`);
  }
  const { id } = fields;
  if (id === undefined) throw invalid('it has no "id"');
  if (typeof id === "string" && HALF_PAIR.test(id)) {
    throw invalid('its "id" is no text: it has half of a surrogate pair');
  }
  return { id, vector: fields.vector, removed: fields.removed };
}

function parsedOrNot(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function invalid(what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", what);
}

function tooMuch(what: string): WinnowError {
  const text = `Cannot read ${UPDATE_FILE}: ${what}; export the model anew`;
  return new WinnowError("RESOURCE_EXHAUSTED", text);
}
