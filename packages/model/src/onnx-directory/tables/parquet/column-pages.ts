// The pages of a Parquet column, decoded one at a time: levels, which tell where lists begin and values are
// missing, and the values. Of pages that are not asked for, only the headers are read.
//
//   chunk:  [dictionary page] │ page │ page │ …      page: header │ levels, values: compressed

import { brotliDecompressSync, gunzipSync } from "node:zlib";
import * as zlib from "node:zlib";
import { WinnowError, excerpt } from "@winnow/core";
import { decompressSnappy } from "../../../saved-model/bundle/snappy.ts";
import type { RegionFile } from "../../../storage/region.ts";
import { hybridIntegers } from "./hybrid-integers.ts";
import type { IntegerLayout } from "./hybrid-integers.ts";
import { damaged, numberOf } from "./parquet-file.ts";
import type { ColumnChunk, ParquetColumn } from "./parquet-file.ts";
import { ThriftCut, readStruct, wholeFields } from "./thrift.ts";
import type { ThriftStruct, WantedFields } from "./thrift.ts";
import { PageTexts } from "./page-texts.ts";

const PAGE_BYTES_MAX = 2 ** 28;
const PAGE_VALUES_MAX = 2 ** 24;
const HEADER_BYTES = 2 ** 10;
const HEADER_BYTES_MAX = 2 ** 24;

/** Codecs that are not read, by number. */
const OTHER_CODECS: Readonly<Record<number, string | undefined>> = { 3: "LZO", 5: "LZ4", 7: "LZ4" };

/** What is read of the header of a page; not statistics. */
const PAGE_HEADER: WantedFields = new Map([
  ...wholeFields(1, 2, 3),
  [5, wholeFields(1, 2)],
  [7, wholeFields(1)],
  [8, wholeFields(1, 4, 5, 6, 7)],
]);

const DATA_PAGE = 0;
const DICTIONARY_PAGE = 2;
const DATA_PAGE_V2 = 3;
const PLAIN = 0;
const DICTIONARY_ENCODINGS: ReadonlySet<number> = new Set([2, 8]);
const RUNS = 3;
const BYTE_STREAM_SPLIT = 9;
/** Names of encodings that are not read, for errors. */
const OTHER_ENCODINGS: ReadonlyMap<number, string> = new Map([
  [5, "DELTA_BINARY_PACKED"],
  [6, "DELTA_LENGTH_BYTE_ARRAY"],
  [7, "DELTA_BYTE_ARRAY"],
]);

/** Decoded values: values of fixed size as bytes one after the other, or strings. */
export type Values = Uint8Array | PageTexts;

/** A page whose header is known. */
export interface Page {
  /** Number of its first value within the chunk. */
  readonly firstValue: number;
  readonly values: number;
  readonly header: ThriftStruct;
  readonly offset: number;
  readonly bytes: number;
}

/** A chunk whose pages can be decoded. */
export interface OpenChunk {
  readonly number: number;
  readonly pages: readonly Page[];
  readonly dictionary: Values | undefined;
}

/** A decoded page. */
export interface DecodedPage {
  /** Levels of each value, if the column has any. */
  readonly repetition: Uint32Array | undefined;
  readonly definition: Uint32Array | undefined;
  /** The values that are not missing. */
  readonly values: Values;
}

/** Reads the pages of a column. */
export class ColumnPages {
  readonly #file: RegionFile;
  readonly #column: ParquetColumn;

  constructor(file: RegionFile, column: ParquetColumn) {
    this.#file = file;
    this.#column = column;
  }

  /** The dictionary and the headers of a chunk's pages. @throws WinnowError DATA_LOSS, UNIMPLEMENTED */
  openChunk(number: number): OpenChunk {
    const chunk = this.#column.chunks[number]!;
    const pages: Page[] = [];
    let dictionary: Values | undefined;
    let firstValue = 0;
    const end = chunk.offset + chunk.bytes;
    for (let at = chunk.offset; at < end && firstValue < chunk.values;) {
      const page = this.#pageAt(at, { end, firstValue });
      const type = numberOf(page.header.get(1));
      if (type === DICTIONARY_PAGE) dictionary = this.#dictionary(chunk, page);
      if (page.values > 0 && (type === DATA_PAGE || type === DATA_PAGE_V2)) pages.push(page);
      firstValue += page.values;
      at = page.offset + page.bytes;
    }
    if (firstValue !== chunk.values) throw this.#damage(`${firstValue} values of ${chunk.values}`);
    return { number, pages, dictionary };
  }

  /** The page that begins at a byte; its header is read. */
  #pageAt(at: number, { end, firstValue }: { end: number; firstValue: number }): Page {
    const { header, length } = this.#pageHeader(at, end);
    const bytes = numberOf(header.get(3));
    if (!(bytes >= 0) || at + length + bytes > end) throw this.#damage("a page of too many bytes");
    const facts = structAt(header, numberOf(header.get(1)) === DATA_PAGE_V2 ? 8 : 5);
    const values = facts.size === 0 ? 0 : numberOf(facts.get(1));
    if (!(values >= 0 && values <= PAGE_VALUES_MAX))
      throw this.#damage("a page of too many values");
    return { header, offset: at + length, bytes, firstValue, values };
  }

  #pageHeader(at: number, end: number): { readonly header: ThriftStruct; readonly length: number } {
    for (let size = HEADER_BYTES; ; size *= 4) {
      const bytes = new Uint8Array(Math.min(size, end - at));
      this.#file.read(at, bytes);
      try {
        const { fields, length } = readStruct(bytes, this.#file.name, PAGE_HEADER);
        return { header: fields, length };
      } catch (error) {
        if (!(error instanceof ThriftCut)) throw error;
        if (bytes.length === end - at || size > HEADER_BYTES_MAX) {
          throw this.#damage("the header of a page");
        }
      }
    }
  }

  #dictionary(chunk: ColumnChunk, page: Page): Values {
    const facts = structAt(page.header, 7);
    const count = numberOf(facts.get(1));
    const bytes = this.#content(chunk, page);
    if (!(count >= 0) || count > PAGE_VALUES_MAX) throw this.#damage("its dictionary");
    return this.#plain(bytes, count);
  }

  /** Reads a page. @throws WinnowError DATA_LOSS, UNIMPLEMENTED */
  decoded({ number, dictionary }: OpenChunk, page: Page): DecodedPage {
    const chunk = this.#column.chunks[number]!;
    const isV2 = numberOf(page.header.get(1)) === DATA_PAGE_V2;
    const { encoding, bytes, repetition, definition } = isV2
      ? this.#pageV2(chunk, page)
      : this.#pageV1(chunk, page);
    const { definitionLevel } = this.#column;
    let count = page.values;
    if (definition !== undefined) {
      count = 0;
      for (const level of definition) if (level === definitionLevel) count += 1;
    }
    const values = this.#values(bytes, { encoding, count, dictionary });
    return { repetition, definition, values };
  }

  /** A page whose levels are compressed together with its values, each preceded by its length. */
  #pageV1(chunk: ColumnChunk, page: Page): EncodedValues {
    const bytes = this.#content(chunk, page);
    const { repetitionLevel, definitionLevel } = this.#column;
    let at = 0;
    const levels = [repetitionLevel, definitionLevel].map((level) => {
      if (level === 0) return undefined;
      if (at + 4 > bytes.length) throw this.#damage("the levels of a page");
      const length = new DataView(bytes.buffer, bytes.byteOffset + at, 4).getUint32(0, true);
      if (at + 4 + length > bytes.length) throw this.#damage("the levels of a page");
      at += 4 + length;
      return this.#levels(bytes.subarray(at - length, at), page, level);
    });
    const encoding = numberOf(structAt(page.header, 5).get(2));
    const [repeated, defined] = levels;
    return { encoding, bytes: bytes.subarray(at), repetition: repeated, definition: defined };
  }

  /** A page whose levels precede its values and are never compressed. */
  #pageV2(chunk: ColumnChunk, page: Page): EncodedValues {
    const facts = structAt(page.header, 8);
    const definition = numberOf(facts.get(5));
    const repetition = numberOf(facts.get(6));
    const levels = definition + repetition;
    if (!(definition >= 0) || !(repetition >= 0) || levels > page.bytes) {
      throw this.#damage("the levels of a page");
    }
    const { repetitionLevel, definitionLevel } = this.#column;
    const bytes = this.#read(page.offset, levels);
    const repeated =
      repetitionLevel === 0
        ? undefined
        : this.#levels(bytes.subarray(0, repetition), page, repetitionLevel);
    const defined =
      definitionLevel === 0
        ? undefined
        : this.#levels(bytes.subarray(repetition), page, definitionLevel);
    const rest = { ...page, offset: page.offset + levels, bytes: page.bytes - levels };
    const codec = facts.get(7) === false ? 0 : chunk.codec;
    const content = this.#content({ ...chunk, codec }, rest, levels);
    const encoding = numberOf(facts.get(4));
    return { encoding, bytes: content, repetition: repeated, definition: defined };
  }

  #levels(bytes: Uint8Array, { values }: Page, most: number): Uint32Array {
    return this.#integers(bytes, { bits: 32 - Math.clz32(most), count: values });
  }

  #values(bytes: Uint8Array, { encoding, count, dictionary }: WantedValues): Values {
    if (this.#column.type === "BOOLEAN") return this.#booleans(bytes, encoding, count);
    if (encoding === PLAIN) return this.#plain(bytes, count);
    if (DICTIONARY_ENCODINGS.has(encoding)) {
      if (dictionary === undefined) throw this.#damage("a page without its dictionary");
      const bits = bytes[0] ?? 0;
      if (bits > 32) throw this.#damage("numbers of more than 32 bits");
      const positions = this.#integers(bytes.subarray(1), { bits, count });
      return this.#fromDictionary(dictionary, positions);
    }
    const size = this.#column.valueBytes;
    if (encoding === BYTE_STREAM_SPLIT && size !== undefined) {
      if (bytes.length < count * size) throw this.#damage("a page that ends early");
      const values = new Uint8Array(count * size);
      for (let at = 0; at < values.length; at += 1) {
        values[at] = bytes[(at % size) * count + Math.floor(at / size)]!;
      }
      return values;
    }
    throw this.#unknownEncoding(encoding);
  }

  #unknownEncoding(encoding: number): WinnowError {
    const text = `column "${excerpt(this.#column.name)}" has encoding ${OTHER_ENCODINGS.get(encoding) ?? encoding}`;
    const remedy =
      "write it plain or with a dictionary (Spark: parquet.writer.version=PARQUET_1_0; DuckDB: PARQUET_VERSION V1; pyarrow: no column_encoding)";
    return new WinnowError("UNIMPLEMENTED", `Cannot read ${this.#file.name}: ${text}; ${remedy}`);
  }

  /** One byte for each boolean, from packed bits, or from runs preceded by their length. */
  #booleans(bytes: Uint8Array, encoding: number, count: number): Uint8Array {
    if (encoding === PLAIN) {
      if (bytes.length * 8 < count) throw this.#damage("a page that ends early");
      return Uint8Array.from({ length: count }, (_, at) => (bytes[at >> 3]! >> (at & 7)) & 1);
    }
    if (encoding !== RUNS) throw this.#unknownEncoding(encoding);
    return Uint8Array.from(this.#integers(bytes.subarray(4), { bits: 1, count }));
  }

  #fromDictionary(dictionary: Values, positions: Uint32Array): Values {
    const size = this.#column.valueBytes ?? 1;
    const known = dictionary.length / size;
    for (const position of positions) {
      if (position >= known) throw this.#damage(`entry ${position} of a dictionary of ${known}`);
    }
    if (dictionary instanceof PageTexts) return dictionary.take(positions);
    const values = new Uint8Array(positions.length * size);
    if (size % 4 !== 0) {
      for (const [at, position] of positions.entries()) {
        values.set(dictionary.subarray(position * size, (position + 1) * size), at * size);
      }
      return values;
    }
    const entries = new Int32Array(new Uint8Array(dictionary).buffer);
    const words = new Int32Array(values.buffer);
    const perValue = size / 4;
    for (let at = 0; at < words.length; at += 1) {
      words[at] = entries[positions[Math.floor(at / perValue)]! * perValue + (at % perValue)]!;
    }
    return values;
  }

  /** Values one after the other; strings each after its length. */
  #plain(bytes: Uint8Array, count: number): Values {
    const size = this.#column.valueBytes;
    if (size !== undefined) {
      if (bytes.length < count * size) throw this.#damage("a page that ends early");
      return bytes.subarray(0, count * size);
    }
    if (bytes.length < count * 4) throw this.#damage("a page that ends early");
    return PageTexts.ofPlain(bytes, count) ?? this.#fail("a page that ends early");
  }

  #integers(bytes: Uint8Array, layout: IntegerLayout): Uint32Array {
    const values = hybridIntegers(bytes, layout);
    if (values === undefined) throw this.#damage("levels or positions that end early");
    return values;
  }

  /** The content of a page, decompressed; `levelBytes` of its size are stored separately. */
  #content({ codec }: ColumnChunk, page: Page, levelBytes = 0): Uint8Array {
    const size = numberOf(page.header.get(2)) - levelBytes;
    if (!(size >= 0) || size > PAGE_BYTES_MAX) throw this.#damage(`a page of ${size} bytes`);
    const stored = this.#read(page.offset, page.bytes);
    const content = size === 0 ? new Uint8Array() : this.#decompressed(stored, codec, size);
    if (content.length !== size)
      throw this.#damage(`a page of ${content.length} bytes, not ${size}`);
    return content;
  }

  #decompressed(stored: Uint8Array, codec: number, size: number): Uint8Array {
    const options = { maxOutputLength: size };
    try {
      if (codec === 0) return stored;
      if (codec === 1) return decompressSnappy(stored, this.#file.name);
      if (codec === 2) return gunzipSync(stored, options);
      if (codec === 4) return brotliDecompressSync(stored, options);
      if (codec === 6 && unzstd !== undefined) return unzstd(stored, options);
    } catch (error) {
      if (error instanceof WinnowError) throw error;
      throw this.#damage("a page that cannot be decompressed");
    }
    const found =
      codec === 6
        ? "zstd, which Node reads from 22.15 on"
        : (OTHER_CODECS[codec] ?? `codec ${codec}`);
    const text = `column "${excerpt(this.#column.name)}" is compressed with ${found}`;
    const remedy = 'write it with snappy, gzip or no compression (Polars: compression="snappy")';
    throw new WinnowError("UNIMPLEMENTED", `Cannot read ${this.#file.name}: ${text}; ${remedy}`);
  }

  #read(offset: number, length: number): Uint8Array {
    if (length > PAGE_BYTES_MAX) throw this.#damage(`a page of ${length} bytes`);
    const bytes = new Uint8Array(length);
    this.#file.read(offset, bytes);
    return bytes;
  }

  #fail(what: string): never {
    throw this.#damage(what);
  }

  #damage(what: string): WinnowError {
    return damaged(this.#file, `${what}, in column "${excerpt(this.#column.name)}"`);
  }
}

interface EncodedValues extends Omit<DecodedPage, "values"> {
  readonly encoding: number;
  readonly bytes: Uint8Array;
}

interface WantedValues {
  readonly encoding: number;
  readonly count: number;
  readonly dictionary: Values | undefined;
}

type Decompress = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array;

/** Built into Node since some version. */
const unzstd = (zlib as { readonly zstdDecompressSync?: Decompress }).zstdDecompressSync;

function structAt(header: ThriftStruct, field: number): ThriftStruct {
  const value = header.get(field);
  return value instanceof Map ? value : new Map();
}
