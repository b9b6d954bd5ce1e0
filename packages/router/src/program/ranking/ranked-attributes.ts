// Attributes of items that a dense part ranks, which came with the program: the rows that filters admit, as bitmaps that
// are kept for later requests, and the objects that answers give. What is kept goes with the program, so a replaced file
// of attributes, which makes another program, shares nothing with its former content.

import {
  StringColumn,
  WinnowError,
  admittedRowsInSteps,
  memberTexts,
  parseFilterText,
} from "@winnow/core";
import type { AttributeColumns, DenseRanking, RankedItems, Tensor } from "@winnow/core";
import type { Steps } from "../../turns/turns.ts";

/** Bytes of the bitmaps, and their texts, that are kept for the items of one program. */
const KEPT_BYTES_MAX = 2 ** 24;

const known = new WeakMap<RankedItems, RankedAttributes>();

/** The attributes of what a ranking ranks. @throws RangeError where the program brings none */
export function attributesOfRanking(
  { described, items }: DenseRanking,
  rankedItems: readonly RankedItems[] = [],
): RankedAttributes {
  const brought = described === undefined ? undefined : rankedItems[described];
  if (brought === undefined) throw new RangeError("attributes of a ranking that was not checked");
  const made = known.get(brought) ?? new RankedAttributes(brought, items);
  known.set(brought, made);
  return made;
}

/** The attributes of some items. */
export class RankedAttributes {
  readonly #columns: AttributeColumns;
  readonly #items: number;
  readonly #keptBytesMax: number;
  /** Bitmaps by the text of their filter, the least recently used first. */
  readonly #kept = new Map<string, Uint8Array>();
  #bytes = 0;

  constructor({ columns }: RankedItems, items: number, keptBytesMax: number = KEPT_BYTES_MAX) {
    this.#columns = new Map(columns.map((column) => [column.spec.name, column]));
    this.#items = items;
    this.#keptBytesMax = keptBytesMax;
  }

  /** Bytes of what is kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The rows that a bound filter admits: bit r & 7 of byte r >> 3 for row r. */
  *admitted(text: string): Steps<Uint8Array> {
    const kept = this.#kept.get(text);
    if (kept !== undefined) {
      this.#kept.delete(text);
      this.#kept.set(text, kept);
      return kept;
    }
    const bits = yield* admittedRowsInSteps(parseFilterText(text), this.#rows());
    this.#keep(text, bits);
    return bits;
  }

  /** Those of some ascending rows that a bound filter admits. It is evaluated for these rows alone: they are few. */
  *admittedAmong(text: string, listed: Uint32Array): Steps<Uint32Array> {
    const rows = { ...this.#rows(), listed };
    const bits = yield* admittedRowsInSteps(parseFilterText(text), rows);
    return listed.filter((_, at) => ((bits[at >> 3]! >> (at & 7)) & 1) === 1);
  }

  /** JSON objects of the attributes of rows `[queries, k]`, ragged where the rows are. @throws WinnowError INTERNAL */
  objectsOf(rows: Tensor, names: readonly string[]): Tensor {
    const { shape, data, rowLengths } = rows;
    const [queries, width] = shape;
    if (shape.length !== 2 || data instanceof StringColumn) {
      throw new WinnowError("INTERNAL", "A dense part ranked items, but not into lists of rows");
    }
    const membersOf = memberTexts(this.#columns, names);
    const objects: Uint8Array[] = [];
    for (let query = 0; query < queries!; query += 1) {
      const length = rowLengths?.[query] ?? width!;
      for (let at = 0; at < width!; at += 1) {
        const row = Number(data[query * width! + at]);
        objects.push(at < length ? Buffer.from(`{${membersOf(row).join(",")}}`) : NOTHING);
      }
    }
    const found: Tensor = { dtype: "string", shape, data: StringColumn.fromBytes(objects) };
    return rowLengths === undefined ? found : { ...found, rowLengths };
  }

  #rows(): Parameters<typeof admittedRowsInSteps>[1] {
    return { columns: this.#columns, rows: this.#items, firstRow: 0 };
  }

  #keep(text: string, bits: Uint8Array): void {
    const before = this.#kept.get(text);
    if (before !== undefined) this.#drop(text, before);
    this.#kept.set(text, bits);
    this.#bytes += bytesOf(text, bits);
    for (const [oldest, others] of this.#kept) {
      if (this.#bytes <= this.#keptBytesMax) break;
      this.#drop(oldest, others);
    }
  }

  #drop(text: string, bits: Uint8Array): void {
    this.#kept.delete(text);
    this.#bytes -= bytesOf(text, bits);
  }
}

const NOTHING = new Uint8Array();

const bytesOf = (text: string, bits: Uint8Array): number => bits.length + 2 * text.length;
