// TensorFlow's checkpoint format (tensorflow/core/util/tensor_bundle, tensor_bundle.proto): an
// index `variables.index` of all tensors, and their bytes in one or more data files. Opening reads
// the index alone; a tensor is read on request. A tensor lies in one piece or in slices
// (tensor-slice.ts), each with a checksum of its own.

import {
  StringColumn,
  type Tensor,
  WinnowError,
  elementCount,
  excerpt,
  extendRegister,
  unmaskChecksum,
  wholeOf,
} from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { messageReader } from "../message.ts";
import { elementBytes, isNarrowFloat, storedDtypeOf, tensorOver, typeName } from "./data-type.ts";
import type { StoredDtype } from "./data-type.ts";
import { readTableEntries, readTableFile } from "./leveldb-table.ts";
import { widened } from "./narrow-floats.ts";
import type { StoredDirectory } from "../../storage/stored-directory.ts";
import type { Region, RegionFile } from "../../storage/region.ts";
import { layOutStrings, lengthChecksumShare, readStringRange } from "./string-region.ts";
import {
  type TensorSlice,
  isSliceKey,
  readTensorSlice,
  sizesOfSlice,
  sliceKeyOf,
  sliceKeyText,
} from "./tensor-slice.ts";

const FOLDER = "variables";
const INDEX_BYTES_MAX = 2 ** 30;
const DATA_FILES_MAX = 10_000;
const PIECE_BYTES = 2 ** 24;

/** What the index says of one tensor. */
export interface BundleEntry {
  readonly key: string;
  /** `undefined` for a type that cannot be read; `typeName` names it. */
  readonly dtype: StoredDtype | undefined;
  readonly typeName: string;
  readonly shape: readonly number[];
  /** Number of the data file that holds it. */
  readonly part: number;
  readonly offset: number;
  readonly size: number;
  /** Unmasked CRC-32C. */
  readonly checksum: number;
  /** Where it is stored in slices, under keys of their own; empty for one in one piece. */
  readonly slices: readonly TensorSlice[];
}

/** A piece of a stored tensor: all of it, or a slice. */
export interface BundlePiece {
  /** First position and size along each dimension of the tensor. */
  readonly start: readonly number[];
  readonly shape: readonly number[];
  /** Unmasked CRC-32C of its bytes. */
  readonly checksum: number;
  readonly region: Region;
}

/** A tensor of the checkpoint, or a slice of one. */
export interface StoredPieces {
  readonly key: string;
  readonly dtype: StoredDtype;
  readonly shape: readonly number[];
  readonly pieces: readonly BundlePiece[];
}

/** An opened checkpoint. Owns its file handles until `close()`. */
export class TensorBundle {
  readonly #directory: StoredDirectory;
  readonly #entries: ReadonlyMap<string, BundleEntry>;
  /** Entries of slices, by `sliceKeyText`. */
  readonly #slices: ReadonlyMap<string, BundleEntry>;
  readonly #parts: number;
  readonly #files = new Map<number, RegionFile>();

  /**
   * Reads the index of a version directory's `variables/`; `seen` receives its bytes before they
   * are parsed.
   * @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED (big-endian)
   */
  constructor(directory: StoredDirectory, seen: (index: Uint8Array) => void = () => undefined) {
    this.#directory = directory;
    const name = `${FOLDER}/variables.index`;
    const file = directory.open(name);
    try {
      const content = readTableFile(file, INDEX_BYTES_MAX);
      seen(content);
      const [header, ...entries] = readTableEntries(content, name);
      if (header?.key !== "") throw damage(name, "it has no header");
      this.#parts = readHeader(messageReader(header.value, name));
      const tensors = new Map<string, BundleEntry>();
      const slices = new Map<string, BundleEntry>();
      for (const { key, keyBytes, value } of entries) {
        const entry = readEntry(key, messageReader(value, name));
        if (isSliceKey(keyBytes)) slices.set(sliceKeyText(keyBytes), entry);
        else tensors.set(key, entry);
      }
      this.#entries = tensors;
      this.#slices = slices;
    } finally {
      file.close();
    }
  }

  /** All keys, ascending. */
  keys(): string[] {
    return [...this.#entries.keys()];
  }

  /** What the index says of a key. */
  entryOf(key: string): BundleEntry | undefined {
    return this.#entries.get(key);
  }

  /** Data files that hold tensors, relative to the version directory. */
  dataFiles(): string[] {
    const names = new Set<string>();
    for (const entry of this.#entries.values()) {
      if (entry.slices.length === 0) names.add(this.#fileOf(entry));
    }
    for (const entry of this.#slices.values()) names.add(this.#fileOf(entry));
    return [...names];
  }

  /**
   * The pieces of a tensor or of a slice of it, in the order of their first elements; dtype and
   * shape have been checked against their sizes, but not whether they cover it.
   * @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED
   */
  piecesOf(key: string, slice?: TensorSlice): StoredPieces {
    const whole = this.#allPiecesOf(key);
    return slice === undefined ? whole : within(whole, slice);
  }

  #allPiecesOf(key: string): StoredPieces {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      const text = `Cannot read tensor "${excerpt(key)}": the checkpoint does not hold it`;
      throw new WinnowError("NOT_FOUND", text);
    }
    if (entry.slices.length > 0) {
      checkShape(entry);
      const pieces = entry.slices.map((slice) => this.#sliceOf(entry, slice));
      checkTogether(pieces);
      return { ...typeOf(entry), pieces: pieces.toSorted(byStart) };
    }
    checkEntry(entry);
    const start = entry.shape.map(() => 0);
    const region = this.#fileFor(entry).region(entry, key);
    const { shape, checksum } = entry;
    return { ...typeOf(entry), pieces: [{ start, shape, checksum, region }] };
  }

  /**
   * A whole tensor, checksums verified; half and bfloat16 values become float32, which hold them.
   * @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED
   */
  readTensor(key: string, slice?: TensorSlice): Tensor {
    const tensor = this.piecesOf(key, slice);
    const [first, ...others] = tensor.pieces;
    const isWhole = others.length === 0 && first?.shape.join() === tensor.shape.join();
    return isWhole ? readPiece(tensor.dtype, first) : joined(tensor);
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
    this.#files.clear();
  }

  #sliceOf(whole: BundleEntry, slice: TensorSlice): BundlePiece {
    const name = `tensor "${excerpt(whole.key)}"`;
    const entry = this.#slices.get(sliceKeyText(sliceKeyOf(whole.key, slice)));
    const where = `slice [${slice.start.join(",")}] of [${slice.length.join(",")}]`;
    if (entry === undefined) throw damage(name, `the index lacks its ${where}`);
    const shape = sizesOfSlice(slice, whole.shape);
    const fits = shape?.join() === entry.shape.join() && entry.typeName === whole.typeName;
    if (!fits) {
      const found = `${entry.typeName} [${entry.shape.join(",")}]`;
      throw damage(
        name,
        `its ${where} is ${found} of ${whole.typeName} [${whole.shape.join(",")}]`,
      );
    }
    checkEntry({ ...entry, key: whole.key });
    const region = this.#fileFor(entry).region(entry, whole.key, where);
    return { start: slice.start, shape: entry.shape, checksum: entry.checksum, region };
  }

  /** Data file of an entry, relative to the version directory. */
  #fileOf(entry: BundleEntry): string {
    return dataFileName(entry.part, this.#parts);
  }

  #fileFor(entry: BundleEntry): RegionFile {
    const open = this.#files.get(entry.part);
    if (open !== undefined) return open;
    const name = this.#fileOf(entry);
    if (entry.part >= this.#parts) throw damage(name, "the index knows no such data file");
    const file = this.#directory.open(name);
    this.#files.set(entry.part, file);
    return file;
  }
}

/** Name of a data file within the version directory. */
export function dataFileName(part: number, parts: number): string {
  const [number, count] = [part, parts].map((value) => String(value).padStart(5, "0"));
  return `${FOLDER}/variables.data-${number}-of-${count}`;
}

function readHeader(header: ProtobufReader): number {
  let parts = 0;
  let endianness = 0;
  while (header.next()) {
    if (header.field === 1) parts = header.int();
    else if (header.field === 2) endianness = header.int();
  }
  if (endianness !== 0) {
    const text = "Cannot read the checkpoint: it was written on a big-endian machine";
    throw new WinnowError("UNIMPLEMENTED", text);
  }
  if (parts < 1 || parts > DATA_FILES_MAX) {
    throw damage(`${FOLDER}/variables.index`, `it claims ${parts} data files`);
  }
  return parts;
}

function readEntry(key: string, reader: ProtobufReader): BundleEntry {
  let type = 0;
  let shape: readonly number[] = [];
  let masked = 0;
  const slices: TensorSlice[] = [];
  const place = { part: 0, offset: 0, size: 0 };
  while (reader.next()) {
    if (reader.field === 1) type = reader.int();
    else if (reader.field === 2) shape = readShape(reader.message());
    else if (reader.field === 3) place.part = reader.int();
    else if (reader.field === 4) place.offset = reader.int();
    else if (reader.field === 5) place.size = reader.int();
    else if (reader.field === 6) masked = reader.fixed32();
    else if (reader.field === 7) slices.push(readTensorSlice(reader.message()));
  }
  const checksum = unmaskChecksum(masked);
  return {
    key,
    dtype: storedDtypeOf(type),
    typeName: typeName(type),
    shape,
    ...place,
    checksum,
    slices,
  };
}

function readShape(reader: ProtobufReader): number[] {
  const shape: number[] = [];
  while (reader.next()) {
    if (reader.field !== 2) continue;
    const dimension = reader.message();
    let size = 0;
    while (dimension.next()) if (dimension.field === 1) size = dimension.int();
    shape.push(size);
  }
  return shape;
}

/** Refuses entries whose claims do not fit together, before anything is allocated. */
function checkEntry(entry: BundleEntry): void {
  const dtype = checkShape(entry);
  const name = `tensor "${excerpt(entry.key)}"`;
  const count = elementCount(entry.shape);
  if (Math.min(entry.part, entry.offset, entry.size) < 0) throw impossible(entry);
  const sizeMin = dtype === "string" ? count + 4 : count * elementBytes(dtype);
  const fits = dtype === "string" ? entry.size >= sizeMin : entry.size === sizeMin;
  if (!fits) {
    const shape = `${dtype} [${entry.shape.join(",")}]`;
    throw damage(name, `${shape} takes ${sizeMin} bytes, the index says ${entry.size}`);
  }
}

function checkShape(entry: BundleEntry): StoredDtype {
  const { dtype, shape } = entry;
  if (dtype === undefined) {
    const text = `Cannot read tensor "${excerpt(entry.key)}": its type is ${entry.typeName}`;
    throw new WinnowError("UNIMPLEMENTED", text);
  }
  const count = elementCount(shape);
  if (shape.some((size) => size < 0) || !Number.isSafeInteger(count)) throw impossible(entry);
  return dtype;
}

function impossible({ key, shape, offset }: BundleEntry): WinnowError {
  const why = `shape [${shape.join(",")}] at byte ${offset} is impossible`;
  return damage(`tensor "${excerpt(key)}"`, why);
}

function typeOf(entry: BundleEntry): Omit<StoredPieces, "pieces"> {
  return { key: entry.key, dtype: checkShape(entry), shape: entry.shape };
}

/** The pieces inside a slice. @throws WinnowError UNIMPLEMENTED where one is inside in part */
function within(whole: StoredPieces, slice: TensorSlice): StoredPieces {
  const name = `tensor "${excerpt(whole.key)}"`;
  const shape = sizesOfSlice(slice, whole.shape);
  const where = `slice [${slice.start.join(",")}] of [${slice.length.join(",")}]`;
  if (shape === undefined) {
    throw damage(name, `its shape [${whole.shape.join(",")}] has no ${where}`);
  }
  const { start } = slice;
  const overlapping = whole.pieces.filter((piece) =>
    shape.every(
      (size, axis) =>
        piece.start[axis]! < start[axis]! + size &&
        piece.start[axis]! + piece.shape[axis]! > start[axis]!,
    ),
  );
  const pieces = overlapping.map((piece): BundlePiece => {
    const inside = piece.start.map((first, axis) => first - start[axis]!);
    const fits = inside.every(
      (first, axis) => first >= 0 && first + piece.shape[axis]! <= shape[axis]!,
    );
    const { checksum, region } = piece;
    if (fits) return { start: inside, shape: piece.shape, checksum, region };
    const text = `Cannot read ${name}: its ${where} is stored in other slices`;
    throw new WinnowError("UNIMPLEMENTED", `${text}; save the model again as it is partitioned`);
  });
  return { key: whole.key, dtype: whole.dtype, shape, pieces };
}

function readPiece(dtype: StoredDtype, piece: BundlePiece): Tensor {
  return dtype === "string" ? readStrings(piece) : readNumbers(dtype, piece);
}

function readNumbers(
  dtype: Exclude<StoredDtype, "string">,
  { region, shape, checksum }: BundlePiece,
): Tensor {
  const buffer = new ArrayBuffer(region.size);
  let register = -1;
  for (let at = 0; at < region.size; at += PIECE_BYTES) {
    const piece = new Uint8Array(buffer, at, Math.min(PIECE_BYTES, region.size - at));
    region.read(at, piece);
    register = extendRegister(register, piece);
  }
  verify(region, { found: ~register >>> 0, stored: checksum });
  if (!isNarrowFloat(dtype)) return tensorOver(dtype, shape, buffer);
  return { dtype: "float32", shape, data: widened(new Uint16Array(buffer), dtype) };
}

function readStrings({ region, shape, checksum }: BundlePiece): Tensor {
  const layout = layOutStrings(region, [0, elementCount(shape)]);
  const { strings, share } = readStringRange(region, layout, { from: 0, to: 1 });
  const shares = share ^ lengthChecksumShare(region, layout);
  verify(region, { found: wholeOf(shares, layout.checksumBytes), stored: checksum });
  return { dtype: "string", shape, data: strings };
}

/** A tensor put together of its slices. @throws WinnowError DATA_LOSS unless they tile it */
function joined({ key, dtype, shape, pieces }: StoredPieces): Tensor {
  const count = elementCount(shape);
  const given = pieces.reduce((sum, piece) => sum + elementCount(piece.shape), 0);
  const name = `tensor "${excerpt(key)}"`;
  if (given !== count) throw damage(name, `its slices hold ${given} of ${count} values`);
  const target = dtype === "string" ? undefined : numbersOf(dtype, shape);
  const strings: Uint8Array[] = [];
  const isGiven = new Uint8Array(count);
  for (const piece of pieces) {
    const content = readPiece(dtype, piece);
    let from = 0;
    for (const at of positionsOfRuns(piece, shape)) {
      const length = piece.shape.at(-1) ?? 1;
      if (isGiven.subarray(at, at + length).includes(1)) throw damage(name, "its slices overlap");
      isGiven.fill(1, at, at + length);
      if (content.dtype === "string") {
        for (let each = 0; each < length; each += 1)
          strings[at + each] = content.data.at(from + each);
      } else {
        (target!.data as Float32Array).set(
          (content.data as Float32Array).subarray(from, from + length),
          at,
        );
      }
      from += length;
    }
  }
  return target ?? { dtype: "string", shape, data: StringColumn.fromBytes(strings) };
}

function numbersOf(
  dtype: Exclude<StoredDtype, "string">,
  shape: readonly number[],
): Exclude<Tensor, { dtype: "string" }> {
  const wide = isNarrowFloat(dtype) ? "float32" : dtype;
  const buffer = new ArrayBuffer(elementCount(shape) * elementBytes(wide));
  return tensorOver(wide, shape, buffer) as Exclude<Tensor, { dtype: "string" }>;
}

/** Where each run of neighbours along a slice's last dimension begins in the tensor, in order. */
function* positionsOfRuns(
  { start, shape: sizes }: BundlePiece,
  shape: readonly number[],
): Generator<number, void, undefined> {
  const runs = elementCount(sizes.slice(0, -1));
  if (elementCount(sizes) === 0) return;
  for (let run = 0; run < runs; run += 1) {
    let left = run;
    let at = start.at(-1) ?? 0;
    let stride = shape.at(-1) ?? 1;
    for (let axis = shape.length - 2; axis >= 0; axis -= 1) {
      at += (start[axis]! + (left % sizes[axis]!)) * stride;
      left = Math.floor(left / sizes[axis]!);
      stride *= shape[axis]!;
    }
    yield at;
  }
}

/**
 * Refuses slices that have more bytes together than their files: an index may list one stretch of a
 * file any number of times. @throws WinnowError DATA_LOSS
 */
function checkTogether(pieces: readonly BundlePiece[]): void {
  const bytes = new Map<string, number>();
  for (const { region } of pieces) {
    const sum = (bytes.get(region.file) ?? 0) + region.size;
    if (sum > region.fileBytes) throw damage(region.name, "its slices share their bytes");
    bytes.set(region.file, sum);
  }
}

/** By first position, the first dimension first. */
function byStart(a: BundlePiece, b: BundlePiece): number {
  const axis = a.start.findIndex((first, index) => first !== b.start[index]);
  return axis < 0 ? 0 : a.start[axis]! - b.start[axis]!;
}

function verify(
  region: Region,
  checksum: { readonly found: number; readonly stored: number },
): void {
  if (checksum.found === checksum.stored) return;
  throw damage(region.name, "its content does not match its checksum");
}

function damage(name: string, why: string): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${name}: ${why}`);
}
