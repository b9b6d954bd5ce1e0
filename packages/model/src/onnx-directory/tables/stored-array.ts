// An array in a file that can be read by range: `.npy` (numpy/lib/format.py) and `.safetensors`. Both are a
// header, which is read and checked completely, followed by the values in the order of rows.
//
//   npy          \x93NUMPY │ version, 2 bytes │ length of the header │ {'descr': …, 'shape': …} │ values
//   safetensors  length of the header, 8 bytes │ {"name": {"dtype", "shape", "data_offsets"}, …} │ values

import { WinnowError, elementCount, excerpt } from "@winnow/core";
import type { Region, RegionFile } from "../../storage/region.ts";
import type { TensorFile } from "../description/description.ts";
import { parseLocatedJson } from "../description/located-json.ts";
import type { LocatedJson } from "../description/located-json.ts";
import type { DirectoryFiles } from "../directory-files.ts";

/** Element types of arrays in files; `unicode` and `bytes` are numpy's strings of fixed width. */
type ArrayType = "float32" | "half" | "bfloat16" | "int32" | "int64" | "unicode" | "bytes";

/** An array in a file. */
export interface StoredArray {
  readonly type: ArrayType;
  /** Bytes of one element. */
  readonly elementBytes: number;
  readonly shape: readonly number[];
  readonly region: Region;
  /** Name within the file, for messages and checksums. */
  readonly tensor: string;
}

/** Bytes of a header, at most: hundreds of thousands of tensors, which are read in ten seconds. */
const HEADER_BYTES_MAX = 2 ** 24;
const NPY_HEADER_BYTES_MAX = 2 ** 20;
const NPY_MAGIC = "\u0093NUMPY";
const NPY_ARRAY = "array";

/** Finds an array by its description. @throws WinnowError naming file, field and remedy */
export function openArray(files: DirectoryFiles, wanted: TensorFile): StoredArray {
  const file = files.open(wanted.file, wanted.where);
  if (wanted.file.endsWith(".npy")) {
    if (wanted.tensor === undefined) return npyArray(file);
    const text = `${wanted.where}: a .npy holds one array without a name; leave out "tensor"`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (wanted.file.endsWith(".safetensors")) return safetensorsArray(file, wanted);
  const text = `${wanted.where}: "${excerpt(wanted.file)}" is no .npy, .safetensors or .parquet file`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/** The array of a .npy file. */
function npyArray(file: RegionFile): StoredArray {
  const start = headOf(file, 12, "the start of a .npy file");
  const bytes = new Uint8Array(start.buffer, start.byteOffset, 12);
  if (latin1(bytes.subarray(0, 6)) !== NPY_MAGIC) throw damaged(file, "it is no .npy file");
  const version = start.getUint8(6);
  if (version < 1 || version > 3) {
    throw damaged(file, `version ${version} of the .npy format; 1 to 3 are read`);
  }
  const headerBytes = version === 1 ? start.getUint16(8, true) : start.getUint32(8, true);
  const headerAt = version === 1 ? 10 : 12;
  if (headerBytes > NPY_HEADER_BYTES_MAX || headerAt + headerBytes > file.size) {
    throw damaged(file, `a header of ${headerBytes} bytes; the file may be truncated`);
  }
  const header = new Uint8Array(headerBytes);
  file.read(headerAt, header);
  const { descr, isFortran, shape } = npyHeader(file, latin1(header));
  if (isFortran && shape.length > 1) {
    const text = "it is in Fortran order, column by column; save numpy.ascontiguousarray(items)";
    throw refused(file, text);
  }
  const { type, elementBytes } = npyType(file, descr);
  const offset = headerAt + headerBytes;
  return arrayAt(file, { type, elementBytes, shape, offset, end: file.size, tensor: NPY_ARRAY });
}

const DESCR = /'descr':\s*'([^']{1,16})'/;
const FORTRAN = /'fortran_order':\s*(True|False)/;
const SHAPE = /'shape':\s*\(([\d,\sL]*)\)/;

function npyHeader(
  file: RegionFile,
  header: string,
): { readonly descr: string; readonly isFortran: boolean; readonly shape: readonly number[] } {
  const descr = DESCR.exec(header)?.[1];
  const order = FORTRAN.exec(header)?.[1];
  const sizes = SHAPE.exec(header)?.[1];
  if (/'descr':\s*\[/.test(header)) {
    throw refused(file, "its elements have several fields; save one array of numbers or of texts");
  }
  if (descr === undefined || order === undefined || sizes === undefined) {
    throw damaged(file, `the header "${excerpt(header.trim())}"`);
  }
  const shape = sizes
    .split(",")
    .map((size) => size.replace("L", "").trim())
    .filter((size) => size !== "")
    .map(Number);
  return { descr, isFortran: order === "True", shape };
}

const NPY_TYPES: Readonly<Record<string, ArrayType>> = {
  "<f4": "float32",
  "<f2": "half",
  "<i4": "int32",
  "<i8": "int64",
};

function npyType(file: RegionFile, descr: string): Pick<StoredArray, "type" | "elementBytes"> {
  const type = NPY_TYPES[descr];
  if (type !== undefined) return { type, elementBytes: Number(descr.slice(2)) };
  const [, kind, width] = /^(<U|\|S)(\d{1,6})$/.exec(descr) ?? [];
  if (Number(width) === 0)
    throw refused(file, `its elements are ${descr}, all of them empty texts`);
  if (kind === "<U") return { type: "unicode", elementBytes: 4 * Number(width) };
  if (kind === "|S") return { type: "bytes", elementBytes: Number(width) };
  const text = `its elements are ${excerpt(descr)}`;
  if (descr.startsWith(">")) {
    throw refused(file, `${text}, big-endian; save items.astype("<${excerpt(descr.slice(1))}")`);
  }
  if (descr.startsWith("|O")) {
    throw refused(
      file,
      `${text}, Python objects; save numpy.array(ids, dtype=str), or a text file`,
    );
  }
  if (descr === "|V2") {
    throw refused(file, `${text}, which may be bfloat16; save it with safetensors`);
  }
  throw refused(file, `${text}; save float32, float16, int64, int32 or texts`);
}

/** A tensor of a .safetensors file. */
function safetensorsArray(file: RegionFile, { tensor, where }: TensorFile): StoredArray {
  const start = headOf(file, 8, "the start of a .safetensors file");
  const headerBytes = Number(start.getBigUint64(0, true));
  const root = parsedHeader(file, headerBytes);
  const names = [...root.keys()].filter((name) => name !== "__metadata__");
  const name = tensor ?? (names.length === 1 ? names[0]! : undefined);
  const listed = names
    .slice(0, 10)
    .map((each) => `"${excerpt(each)}"`)
    .join(", ");
  if (name === undefined) {
    const text = `${where}: ${file.name} holds the tensors ${listed}; name one of them as "tensor"`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const entry = name === "__metadata__" ? undefined : root.get(name)?.value;
  if (entry === undefined) {
    const text = `${where}: ${file.name} holds no tensor "${excerpt(name)}", but ${listed}`;
    throw new WinnowError("NOT_FOUND", text);
  }
  const offset = 8 + headerBytes;
  const ends = names.map((each) => tensorEntry(file, each, root.get(each)!.value).to);
  const end = offset + ends.reduce((last, to) => Math.max(last, to), 0);
  if (end !== file.size) {
    const text = `it has ${file.size} bytes where ${end} belong; it may be truncated`;
    throw damaged(file, text);
  }
  const { dtype, shape, from, to } = tensorEntry(file, name, entry);
  const type = SAFETENSORS_TYPES[dtype];
  if (type === undefined) {
    const text = `tensor "${excerpt(name)}" is ${excerpt(dtype)}; save it as F32, F16, BF16, I64 or I32`;
    throw refused(file, text);
  }
  const elementBytes = SAFETENSORS_BYTES[type] ?? 4;
  const place = { offset: offset + from, end: offset + to };
  return arrayAt(file, { type, elementBytes, shape, ...place, tensor: name });
}

const SAFETENSORS_TYPES: Readonly<Record<string, ArrayType>> = {
  F32: "float32",
  F16: "half",
  BF16: "bfloat16",
  I32: "int32",
  I64: "int64",
};
const SAFETENSORS_BYTES: Readonly<Partial<Record<ArrayType, number>>> = {
  half: 2,
  bfloat16: 2,
  int64: 8,
};

type Members = Extract<LocatedJson, { kind: "object" }>["members"];

function parsedHeader(file: RegionFile, headerBytes: number): Members {
  if (8 + headerBytes > file.size) {
    throw damaged(file, `a header of ${headerBytes} bytes; the file may be truncated`);
  }
  if (headerBytes > HEADER_BYTES_MAX) {
    const text = `a header of ${headerBytes} bytes, at most ${HEADER_BYTES_MAX} are read`;
    throw refused(file, `${text}; save the items in a file of their own`);
  }
  const header = new Uint8Array(headerBytes);
  file.read(8, header);
  let root: LocatedJson;
  try {
    root = parseLocatedJson(header, file.name);
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    throw new WinnowError("DATA_LOSS", error.message, { cause: error });
  }
  if (root.kind !== "object") throw damaged(file, "its header is no object");
  return root.members;
}

interface TensorEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly from: number;
  readonly to: number;
}

function tensorEntry(file: RegionFile, name: string, entry: LocatedJson): TensorEntry {
  const members: Members = entry.kind === "object" ? entry.members : new Map();
  const dtype = members.get("dtype")?.value;
  const shape = numbersOf(members.get("shape")?.value);
  const offsets = numbersOf(members.get("data_offsets")?.value);
  if (dtype?.kind === "text" && shape !== undefined && offsets?.length === 2) {
    const [from, to] = [offsets[0]!, offsets[1]!];
    if (from <= to) return { dtype: dtype.value, shape, from, to };
  }
  throw damaged(file, `the entry of tensor "${excerpt(name)}"`);
}

function numbersOf(value: LocatedJson | undefined): readonly number[] | undefined {
  if (value?.kind !== "list") return undefined;
  const numbers = value.items.map((item) => (item.kind === "number" ? item.value : NaN));
  return numbers.every((number) => Number.isSafeInteger(number) && number >= 0)
    ? numbers
    : undefined;
}

interface ArrayPlace extends Omit<StoredArray, "region"> {
  readonly offset: number;
  readonly end: number;
}

/** The array at a place of a file; it must fill the place exactly. */
function arrayAt(file: RegionFile, { offset, end, ...array }: ArrayPlace): StoredArray {
  const { shape, elementBytes, tensor } = array;
  const size = elementCount(shape) * elementBytes;
  if (size !== end - offset) {
    const text = `"${excerpt(tensor)}" of shape [${shape.join(",")}] takes ${size} bytes, but it has ${end - offset}`;
    throw damaged(file, `${text}; it may be truncated`);
  }
  return { ...array, region: file.region({ offset, size }, excerpt(tensor)) };
}

function headOf(file: RegionFile, bytes: number, what: string): DataView {
  if (file.size < bytes) throw damaged(file, `it ends at byte ${file.size}, before ${what} does`);
  const head = new Uint8Array(bytes);
  file.read(0, head);
  return new DataView(head.buffer);
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function damaged({ name }: RegionFile, what: string): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${name}: ${what}`);
}

function refused({ name }: RegionFile, what: string): WinnowError {
  return new WinnowError("UNIMPLEMENTED", `Cannot read ${name}: ${what}`);
}
