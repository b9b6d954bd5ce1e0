// The footer of a Parquet file (apache/parquet-format, parquet.thrift): its columns, and where the chunk of
// each row group lies.
//
//   PAR1 │ row group: chunk of column 0, chunk of column 1, … │ row group … │ footer │ its length │ PAR1

import { WinnowError, excerpt } from "@winnow/core";
import type { RegionFile } from "../../../storage/region.ts";
import { ThriftCut, readStruct, wholeFields } from "./thrift.ts";
import type { ThriftStruct, ThriftValue, WantedFields } from "./thrift.ts";

const MAGIC = 0x31524150;
/** `PARE`: the footer is encrypted. */
const ENCRYPTED_MAGIC = 0x45524150;
const FOOTER_BYTES_MAX = 2 ** 27;
const COLUMNS_MAX = 10_000;
const REPEATED = 2;
const REQUIRED = 0;

/** What is read of a footer: of the schema, and of each row group's chunks; not statistics. */
const FOOTER: WantedFields = new Map([
  [2, wholeFields(1, 2, 3, 4, 5, 6, 7, 10)],
  [3, undefined],
  [
    4,
    new Map([
      [1, new Map([...wholeFields(1), [3, wholeFields(4, 5, 7, 9, 11)]])],
      [3, undefined],
    ]),
  ],
]);

/** Physical types by number. */
const PHYSICAL_TYPES: readonly string[] =
  "BOOLEAN INT32 INT64 INT96 FLOAT DOUBLE BYTE_ARRAY FIXED_LEN_BYTE_ARRAY".split(" ");
const FIXED_LENGTH = PHYSICAL_TYPES.indexOf("FIXED_LEN_BYTE_ARRAY");

/** Bytes of one value; those of `FIXED_LEN_BYTE_ARRAY` are in the schema. */
const VALUE_BYTES: Readonly<Record<string, number | undefined>> = {
  INT32: 4,
  INT64: 8,
  INT96: 12,
  FLOAT: 4,
  DOUBLE: 8,
};

/** The part of a column in one row group. */
export interface ColumnChunk {
  readonly offset: number;
  readonly bytes: number;
  /** Number of the codec. */
  readonly codec: number;
  /** Number of values of all rows, with nulls. */
  readonly values: number;
  readonly rows: number;
}

/** Logical types that change the meaning of a physical value; strings and plain numbers need none. */
type ParquetMeaning =
  | "date"
  | "millis"
  | "micros"
  | "nanos"
  | "unsigned"
  | "decimal"
  | UnreadMeaning;

/** Logical types that no column may have whose values are read. */
type UnreadMeaning = "time" | "bson" | "interval" | "uuid" | "float16" | "other";

/** By number of the converted type (parquet.thrift, ConvertedType); 0: UTF8, 15 to 18: INT_8 to INT_64. */
const CONVERTED: Readonly<Record<number, ParquetMeaning | undefined>> = {
  5: "decimal",
  6: "date",
  7: "time",
  8: "time",
  9: "millis",
  10: "micros",
  11: "unsigned",
  12: "unsigned",
  13: "unsigned",
  14: "unsigned",
  20: "bson",
  21: "interval",
};
const DECIMAL = 5;
/** By field of the union (LogicalType); 1: STRING, 4: ENUM, 10: INTEGER, 12: JSON. */
const LOGICAL: Readonly<Record<number, ParquetMeaning | undefined>> = {
  [DECIMAL]: "decimal",
  6: "date",
  7: "time",
  13: "bson",
  14: "uuid",
  15: "float16",
};
const TIMESTAMP = 8;
const INTEGER = 10;
const TIME_UNITS: readonly (ParquetMeaning | undefined)[] = [
  undefined,
  "millis",
  "micros",
  "nanos",
];

/** A column that holds values. */
export interface ParquetColumn {
  /** Name of the field of the table that the column belongs to. */
  readonly name: string;
  /** Physical type, such as `FLOAT`. */
  readonly type: string;
  /** The meaning of the values, if the file states one. */
  readonly meaning: ParquetMeaning | undefined;
  /** Bytes of one value; `undefined` for texts, which have any length, and booleans, which are decoded to one byte each. */
  readonly valueBytes: number | undefined;
  /** Digits of a decimal behind the point; 0 for all others. */
  readonly scale: number;
  /** Depth of the value in the fields of the table: 1 for a plain column, 2 or 3 for a list. */
  readonly depth: number;
  /** Definition level of a value that is present, and repetition level of nested lists. */
  readonly definitionLevel: number;
  readonly repetitionLevel: number;
  /** Definition level from which on a list has an element; 0 without lists. */
  readonly elementLevel: number;
  readonly chunks: readonly ColumnChunk[];
}

/** Reads a footer. @throws WinnowError DATA_LOSS, UNIMPLEMENTED, RESOURCE_EXHAUSTED */
export function readFooter(file: RegionFile): readonly ParquetColumn[] {
  const tail = new Uint8Array(8);
  if (file.size < 12) throw damaged(file, "it is no Parquet file; it may be truncated");
  file.read(file.size - 8, tail);
  const view = new DataView(tail.buffer);
  const magic = view.getUint32(4, true);
  if (magic === ENCRYPTED_MAGIC) throw unsupported(file, "its footer is encrypted");
  if (magic !== MAGIC) {
    throw damaged(file, "it does not end as a Parquet file does; it may be truncated");
  }
  const length = view.getUint32(0, true);
  if (length > FOOTER_BYTES_MAX || length > file.size - 12) {
    throw damaged(file, `a footer of ${length} bytes; it may be truncated`);
  }
  const footer = new Uint8Array(length);
  file.read(file.size - 8 - length, footer);
  try {
    const { fields } = readStruct(footer, file.name, FOOTER);
    return columnsOf(file, fields);
  } catch (error) {
    if (error instanceof ThriftCut) throw damaged(file, "its footer ends early");
    throw error;
  }
}

type Leaf = Omit<ParquetColumn, "chunks">;

function columnsOf(file: RegionFile, footer: ThriftStruct): readonly ParquetColumn[] {
  const leaves = leavesOf(file, structsOf(footer.get(2)));
  const groups = structsOf(footer.get(4));
  const rows = groups.reduce((sum, group) => sum + numberOf(group.get(3)), 0);
  if (rows !== numberOf(footer.get(3)))
    throw damaged(file, "its row groups have other rows than its footer says");
  const chunks = groups.map((group) => structsOf(group.get(1)));
  const columnAt = (leaf: Leaf, at: number): ParquetColumn => ({
    ...leaf,
    chunks: groups.map((group, row) => chunkOf(file, chunks[row]![at], numberOf(group.get(3)))),
  });
  return leaves.map(columnAt);
}

/** The columns of values, in the order of the schema, which is the order of chunks in a row group. */
function leavesOf(file: RegionFile, schema: readonly ThriftStruct[]): Leaf[] {
  const leaves: Leaf[] = [];
  let next = 1;
  const walk = (count: number, above: Omit<Leaf, keyof LeafType>, depth: number): void => {
    for (let child = 0; child < count; child += 1, depth > 32 && fail()) {
      const element = schema[next++] ?? fail();
      const repetition = numberOf(element.get(3) ?? REQUIRED);
      const definitionLevel = above.definitionLevel + Number(repetition !== REQUIRED);
      const below = {
        name: above.name === "" ? textOf(element.get(4)) : above.name,
        depth,
        definitionLevel,
        repetitionLevel: above.repetitionLevel + Number(repetition === REPEATED),
        elementLevel: repetition === REPEATED ? definitionLevel : above.elementLevel,
      };
      const children = numberOf(element.get(5) ?? 0);
      if (children > 0) walk(children, below, depth + 1);
      else {
        leaves.push({ ...below, ...(leafTypeOf(element) ?? fail()) });
      }
      if (leaves.length > COLUMNS_MAX) fail();
    }
  };
  const fail = (): never => {
    throw damaged(file, "its schema");
  };
  const root = { name: "", depth: 0, definitionLevel: 0, repetitionLevel: 0, elementLevel: 0 };
  walk(numberOf(schema[0]?.get(5) ?? 0), root, 1);
  return leaves;
}

type LeafType = Pick<ParquetColumn, "type" | "meaning" | "valueBytes" | "scale">;

function leafTypeOf(element: ThriftStruct): LeafType | undefined {
  const number = numberOf(element.get(1));
  const type = PHYSICAL_TYPES[number];
  const valueBytes = number === FIXED_LENGTH ? numberOf(element.get(2)) : VALUE_BYTES[type ?? ""];
  const meaning = meaningOf(element);
  const scale = meaning === "decimal" ? scaleOf(element) : 0;
  const isKnown = (valueBytes ?? 1) > 0 && scale >= 0;
  return type === undefined || !isKnown ? undefined : { type, meaning, valueBytes, scale };
}

/** In the logical type, and beside the converted one; a writer may leave out a scale of 0. */
function scaleOf(element: ThriftStruct): number {
  const [field, facts] = memberOf(element.get(10));
  const scale = field === DECIMAL && facts instanceof Map ? facts.get(1) : element.get(7);
  return numberOf(scale ?? 0);
}

function meaningOf(element: ThriftStruct): ParquetMeaning | undefined {
  const [field, facts] = memberOf(element.get(10));
  if (field === TIMESTAMP) {
    const [unit] = memberOf(facts instanceof Map ? facts.get(2) : undefined);
    return TIME_UNITS[unit] ?? "other";
  }
  if (field === INTEGER && facts instanceof Map && facts.get(2) === false) return "unsigned";
  return LOGICAL[field] ?? CONVERTED[numberOf(element.get(6))];
}

/** The member that a union has; field 0 if it has none. */
function memberOf(union: ThriftValue | undefined): readonly [number, ThriftValue | undefined] {
  const [member] = union instanceof Map ? [...(union as ThriftStruct)] : [];
  return member ?? [0, undefined];
}

function chunkOf(
  file: RegionFile,
  chunk: ThriftStruct | undefined,
  rowsOfGroup: number,
): ColumnChunk {
  const facts = chunk?.get(3);
  if (!(facts instanceof Map))
    throw damaged(file, "its footer lacks a column; it may be encrypted");
  if (chunk?.has(1) === true) throw damaged(file, "its columns lie in other files");
  const read = chunkFacts(facts, rowsOfGroup);
  const { offset, bytes, values, rows } = read;
  // The row group of an empty piece has no page, and writers say that it lies at 0.
  if (rows === 0 && values === 0) return { ...read, offset: 0, bytes: 0 };
  const isInside = offset >= 4 && bytes >= 0 && offset + bytes <= file.size;
  if (isInside && values >= 0 && rows >= 0) return read;
  const text = `a column chunk at byte ${offset} of ${bytes} bytes; it may be truncated`;
  throw damaged(file, text);
}

function chunkFacts(facts: ThriftStruct, rows: number): ColumnChunk {
  const [codec, values, bytes, dataAt, dictionaryAt] = [4, 5, 7, 9, 11].map((field) =>
    numberOf(facts.get(field)),
  ) as [number, number, number, number, number];
  // Some writers give a dictionary page at 0 if there is none.
  const offset = dictionaryAt > 0 ? Math.min(dataAt, dictionaryAt) : dataAt;
  return { offset, bytes, codec, values, rows };
}

function structsOf(value: ThriftValue | undefined): readonly ThriftStruct[] {
  const items = Array.isArray(value) ? (value as readonly ThriftValue[]) : [];
  return items.filter((item): item is ThriftStruct => item instanceof Map);
}

/** A number of the footer; NaN for other values, which fails every comparison. */
export function numberOf(value: ThriftValue | undefined): number {
  return typeof value === "number" && Number.isSafeInteger(value) ? value : NaN;
}

function textOf(value: ThriftValue | undefined): string {
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : "";
}

function unsupported({ name }: RegionFile, what: string): WinnowError {
  return new WinnowError("UNIMPLEMENTED", `Cannot read ${excerpt(name)}: ${what}`);
}

/** The error for a file whose content contradicts itself. */
export function damaged({ name }: RegionFile, what: string): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${excerpt(name)}: ${what}`);
}
