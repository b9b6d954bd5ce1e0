// The ids of items, read by partition from the files of an export: integers and numpy's strings by range,
// lines of a text file between the lines at which partitions begin. Two rows with the same id are refused,
// because an exclusion could not tell them apart.

import { isUtf8 } from "node:buffer";
import {
  type CandidateTable,
  StringColumn,
  type Tensor,
  WinnowError,
  checksumShare,
  excerpt,
  extendRegister,
  rowRangeOf,
  shiftRegister,
} from "@winnow/core";
import type { Region } from "../../storage/region.ts";
import { checkUtf8 } from "../../storage/utf8-lines.ts";
import { regionBytes } from "./region-bytes.ts";
import type { IdReading } from "../../saved-model/partitions/id-reading.ts";
import { constantShare } from "../../saved-model/partitions/row-reading.ts";
import type { TextColumn } from "./parquet/parquet-array.ts";
import type { StoredArray } from "./stored-array.ts";

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const CODE_POINT_BYTES = 4;
const encoder = new TextEncoder();

/**
 * Visits the ids of all rows in order, as bytes that differ if the ids do. The bytes are valid during the
 * visit only.
 */
export type IdScan = (visit: (row: number, id: Uint8Array) => void) => void;

/** The lines of a text file as ids. */
export class TextIds {
  readonly #region: Region;
  readonly rows: number;

  /** Counts the lines. @throws WinnowError INVALID_ARGUMENT for an empty one, or one that is not UTF-8 */
  constructor(region: Region) {
    this.#region = region;
    let rows = 0;
    this.scan(() => void (rows += 1));
    this.rows = rows;
  }

  /** Visits all lines; the last one need not end with a newline. */
  scan(visit: (row: number, id: Uint8Array) => void): void {
    let row = 0;
    for (const { bytes, line } of this.#lines()) {
      visit(row, bytes.subarray(line.start, line.end));
      row += 1;
    }
  }

  /** Prepares reading by partition. */
  reading(table: CandidateTable): IdReading {
    const starts = this.#startsOf(table);
    const { size } = this.#region;
    return {
      bytesOf: (partition) => {
        const { firstRow, endRow } = rowRangeOf(partition, table);
        return starts[partition + 1]! - starts[partition]! + (endRow - firstRow + 1) * 4;
      },
      read: (partition) => {
        const { firstRow, endRow } = rowRangeOf(partition, table);
        const bytes = new Uint8Array(starts[partition + 1]! - starts[partition]!);
        this.#region.read(starts[partition]!, bytes);
        const lines = linesOf(bytes);
        if (lines.length !== endRow - firstRow) throw changed(this.#region);
        const data = StringColumn.fromBytes(
          lines.map(({ start, end }) => bytes.subarray(start, end)),
        );
        const share = checksumShare(bytes, size - starts[partition + 1]!);
        const ids: Tensor = { dtype: "string", shape: [data.length], data };
        return { ids, share: (share ^ constantShare(partition, size)) >>> 0 };
      },
    };
  }

  /** Where each partition begins in the file, and where the last one ends. */
  #startsOf(table: CandidateTable): Float64Array {
    const starts = new Float64Array(table.partitions + 1).fill(this.#region.size);
    let partition = 0;
    let row = 0;
    for (const { offset } of this.#lines()) {
      while (partition < table.partitions && rowRangeOf(partition, table).firstRow === row) {
        starts[partition] = offset;
        partition += 1;
      }
      row += 1;
    }
    return starts;
  }

  *#lines(): Generator<{
    readonly bytes: Uint8Array;
    readonly line: Line;
    readonly offset: number;
  }> {
    const { name } = this.#region;
    let rest = new Uint8Array();
    let restAt = 0;
    let row = 0;
    for (const piece of regionBytes(this.#region)) {
      const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      // The last line may go on in the next piece.
      checkUtf8(this.#region, bytes.subarray(0, bytes.lastIndexOf(NEWLINE) + 1), row + 1);
      let start = 0;
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
        yield { bytes, line: lineOf(bytes, { start, end }, { name, row }), offset: restAt + start };
        start = end + 1;
        row += 1;
      }
      rest = bytes.slice(start);
      restAt += start;
      if (rest.length > LINE_BYTES_MAX) throw tooLong(name, row);
    }
    if (rest.length === 0) return;
    checkUtf8(this.#region, rest, row + 1);
    const line = lineOf(rest, { start: 0, end: rest.length }, { name, row });
    yield { bytes: rest, line, offset: restAt };
  }
}

/** Bytes of one id in a text file, at most. */
const LINE_BYTES_MAX = 2 ** 20;

interface Line {
  readonly start: number;
  readonly end: number;
}

/** A line without the "\r" at its end. @throws WinnowError INVALID_ARGUMENT for an empty one */
function lineOf(
  bytes: Uint8Array,
  { start, end }: Line,
  { name, row }: { readonly name: string; readonly row: number },
): Line {
  const last = end > start && bytes[end - 1] === RETURN ? end - 1 : end;
  if (last > start) return { start, end: last };
  const text = `Cannot read ${name}: line ${row + 1} is empty; every row of the items needs an id`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function linesOf(bytes: Uint8Array): Line[] {
  const lines: Line[] = [];
  for (let start = 0; start < bytes.length;) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    const last = end > start && bytes[end - 1] === RETURN ? end - 1 : end;
    lines.push({ start, end: last });
    start = end + 1;
  }
  return lines;
}

/**
 * The strings of a column as ids. Their checksum is that of a text file with one of them per line, so the
 * position of each partition in that file is computed once, over the whole column.
 */
export class ColumnIds {
  readonly #column: TextColumn;
  readonly checksum: number;
  /** Bytes of the lines before each partition, and of all lines. */
  readonly #starts: Float64Array;

  /** @throws WinnowError INVALID_ARGUMENT for a text that is not UTF-8 */
  constructor(column: TextColumn, partitions: Pick<CandidateTable, "rows" | "partitions">) {
    this.#column = column;
    this.#starts = new Float64Array(partitions.partitions + 1);
    let register = -1;
    let bytes = 0;
    let row = 0;
    for (let partition = 0; partition < partitions.partitions; partition += 1) {
      const { firstRow, endRow } = rowRangeOf(partition, partitions);
      for (const text of column.texts(firstRow, endRow)) {
        checkText(text, column, row++);
        register = extendRegister(extendRegister(register, text), LINE_END);
        bytes += text.length + 1;
      }
      this.#starts[partition + 1] = bytes;
    }
    this.checksum = ~register >>> 0;
  }

  /** Visits all texts. */
  scan(visit: (row: number, id: Uint8Array) => void): void {
    let row = 0;
    for (const text of this.#column.texts(0, this.#column.rows)) {
      visit(row, text);
      row += 1;
    }
  }

  /** Prepares reading by partition. */
  reading(table: CandidateTable): IdReading {
    const starts = this.#starts;
    const size = starts[table.partitions]!;
    return {
      bytesOf: (partition) => {
        const { firstRow, endRow } = rowRangeOf(partition, table);
        return starts[partition + 1]! - starts[partition]! + (endRow - firstRow + 1) * 4;
      },
      read: (partition) => {
        const { firstRow, endRow } = rowRangeOf(partition, table);
        const texts = [...this.#column.texts(firstRow, endRow)];
        let register = 0;
        for (const text of texts)
          register = extendRegister(extendRegister(register, text), LINE_END);
        const share = shiftRegister(register, size - starts[partition + 1]!);
        const data = StringColumn.fromBytes(texts);
        const ids: Tensor = { dtype: "string", shape: [data.length], data };
        return { ids, share: (share ^ constantShare(partition, size)) >>> 0 };
      },
    };
  }
}

const LINE_END = Uint8Array.of(NEWLINE);

/** Prepares reading of strings of a fixed width by partition: numpy's `<U` and `|S`. */
export function fixedTextReading(table: CandidateTable, array: StoredArray): IdReading {
  const { region, elementBytes } = array;
  const placeOf = (partition: number): { readonly from: number; readonly size: number } => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return { from: firstRow * elementBytes, size: (endRow - firstRow) * elementBytes };
  };
  return {
    // A code point takes at most as many bytes in UTF-8 as in the file.
    bytesOf: (partition) => {
      const { size } = placeOf(partition);
      return size + (size / Math.max(1, elementBytes) + 1) * 4;
    },
    read(partition) {
      const { from, size } = placeOf(partition);
      const bytes = new Uint8Array(size);
      region.read(from, bytes);
      const firstRow = from / elementBytes;
      const texts = Array.from({ length: size / elementBytes }, (_, at) => {
        const element = bytes.subarray(at * elementBytes, (at + 1) * elementBytes);
        return textOf(element, array, firstRow + at);
      });
      const data = StringColumn.fromBytes(texts);
      const share = checksumShare(bytes, region.size - from - size);
      const ids: Tensor = { dtype: "string", shape: [data.length], data };
      return { ids, share: (share ^ constantShare(partition, region.size)) >>> 0 };
    },
  };
}

/** The text of an element without its padding of zeros, as UTF-8 if numpy has code points. */
function textOf(element: Uint8Array, { type, region }: StoredArray, row: number): Uint8Array {
  if (type === "bytes") {
    let end = element.length;
    while (end > 0 && element[end - 1] === 0) end -= 1;
    const bytes = element.subarray(0, end);
    checkText(bytes, region, row);
    return bytes;
  }
  let [text, length] = ["", 0];
  const view = new DataView(element.buffer, element.byteOffset, element.byteLength);
  for (let at = 0; at < element.length; at += CODE_POINT_BYTES) {
    const point = view.getUint32(at, true);
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
      throw new WinnowError("DATA_LOSS", `Cannot read ${region.name}: row ${row} holds no text`);
    }
    text += String.fromCodePoint(point);
    if (point !== 0) length = text.length;
  }
  return encoder.encode(text.slice(0, length));
}

/** As `checkUtf8` for lines. */
function checkText(bytes: Uint8Array, { name }: { readonly name: string }, row: number): void {
  if (isUtf8(bytes)) return;
  const text = `row ${row} holds "${excerpt(Buffer.from(bytes).toString())}", not UTF-8`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot read ${name}: ${text}; write texts in UTF-8`);
}

/** Visits the elements of an array as stored. */
export function arrayScan({ region, elementBytes }: StoredArray): IdScan {
  return (visit) => {
    let row = 0;
    for (const piece of regionBytes(region, elementBytes)) {
      for (let at = 0; at < piece.length; at += elementBytes, row += 1) {
        visit(row, piece.subarray(at, at + elementBytes));
      }
    }
  };
}

/** Ids that are compared together. More are compared in several passes, to bound the memory. */
const IDS_PER_TURN = 2 ** 22;

/** The ids to compare. */
interface ComparedIds {
  readonly rows: number;
  /** The place that names their file, and the file, for messages. */
  readonly where: string;
  readonly name: string;
  /** Default `IDS_PER_TURN`. */
  readonly idsPerPass?: number;
}

/** Refuses ids of which two are equal. @throws WinnowError INVALID_ARGUMENT naming both rows */
export function expectDistinct(
  scan: IdScan,
  { rows, where, name, idsPerPass = IDS_PER_TURN }: ComparedIds,
): void {
  const passes = Math.ceil(rows / idsPerPass);
  for (let pass = 0; pass < passes; pass += 1) {
    const suspects = pairsOfOneHash(scan, { rows, passes, pass });
    if (suspects.length === 0) continue;
    const wanted = new Set(suspects.flat());
    const ids = new Map<number, Uint8Array>();
    scan((row, id) => void (wanted.has(row) && ids.set(row, id.slice())));
    for (const [first, second] of suspects) {
      if (Buffer.compare(ids.get(first)!, ids.get(second)!) !== 0) continue;
      const text = `${where}: rows ${first} and ${second} of ${name} have one id`;
      throw new WinnowError("INVALID_ARGUMENT", `${text}; give each item one row`);
    }
  }
}

interface ScanPass {
  readonly rows: number;
  readonly passes: number;
  readonly pass: number;
}

const SUSPECTS_MAX = 1000;

/** Pairs of rows whose ids have the same 64-bit hash. */
function pairsOfOneHash(
  scan: IdScan,
  { rows, passes, pass }: ScanPass,
): (readonly [number, number])[] {
  // At most about half full, because hashes are spread evenly over the passes.
  const slots = 2 ** Math.ceil(Math.log2(Math.max(16, (rows / passes) * 2.5)));
  const lows = new Int32Array(slots);
  const highs = new Int32Array(slots);
  const rowsBehind = new Uint32Array(slots);
  const pairs: (readonly [number, number])[] = [];
  let used = 0;
  scan((row, id) => {
    let low = 0x811c9dc5;
    let high = 0x01000193;
    for (let at = 0; at < id.length; at += 1) {
      low = Math.imul(low ^ id[at]!, 0x01000193);
      high = Math.imul(high ^ id[at]!, 0x85ebca6b) ^ (high >>> 13);
    }
    low ^= low >>> 16;
    if ((high >>> 0) % passes !== pass || pairs.length >= SUSPECTS_MAX) return;
    let slot = Math.imul(low, 0x9e3779b1) >>> 0;
    for (slot %= slots; rowsBehind[slot] !== 0; slot = (slot + 1) % slots) {
      if (lows[slot] !== low || highs[slot] !== high) continue;
      pairs.push([rowsBehind[slot]! - 1, row]);
      return;
    }
    if (used >= slots - 1) {
      const text = "the hashes of the ids are too unlike chance to compare them";
      throw new WinnowError("RESOURCE_EXHAUSTED", text);
    }
    used += 1;
    lows[slot] = low;
    highs[slot] = high;
    rowsBehind[slot] = row + 1;
  });
  return pairs;
}

function changed({ name }: Region): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${name}: it changed while it was read`);
}

function tooLong(name: string, row: number): WinnowError {
  const text = `line ${row + 1} has more than ${LINE_BYTES_MAX} bytes`;
  return new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${excerpt(name)}: ${text}`);
}
