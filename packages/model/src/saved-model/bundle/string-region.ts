// String tensors in a checkpoint, whole and by range (tensorflow/core/util/tensor_bundle,
// WriteStringTensor).
//
//   region:    varint lengths │ masked crc32c of the lengths, 4 bytes │ all bytes back to back
//   checksum:  over uint32 lengths │ the same 4 bytes │ all bytes
//
// Where string i begins follows only from the lengths before it. The lengths are read once per
// tensor (one byte each for short strings), and positions are kept for partition borders only.

import {
  StringColumn,
  WinnowError,
  checksumShare,
  extendRegisterByWords,
  maskChecksum,
} from "@winnow/core";
import { ByteCursor, uint32At } from "./byte-cursor.ts";
import type { Region } from "../../storage/region.ts";

const SCAN_BYTES = 2 ** 20;
const SCAN_BYTES_MIN = 4096;
const LENGTH_MAX = 2 ** 32 - 1;
const VARINT_BYTES_MAX = 10;

/** Where the strings at the requested borders lie. */
export interface StringLayout {
  /** Strings in the tensor. */
  readonly count: number;
  /** Ascending string positions, from 0 to `count`. */
  readonly borders: readonly number[];
  /** Start of the length of the string at each border, within the region. */
  readonly lengthOffsets: Float64Array;
  /** Start of its bytes, within the region. */
  readonly dataOffsets: Float64Array;
  /** Stored checksum of the lengths, as it lies in the region. */
  readonly lengthChecksum: Uint8Array;
  /** Bytes the tensor's checksum runs over. */
  readonly checksumBytes: number;
}

/** Strings of one range with their share of the tensor's checksum. */
export interface StringRange {
  readonly strings: StringColumn;
  /** Checksum share of these strings and their lengths alone. */
  readonly share: number;
}

/**
 * Reads all lengths once, verifies their checksum, and verifies that they add up to the region's
 * size.
 * @throws WinnowError DATA_LOSS, UNIMPLEMENTED for a string of 4 GiB
 */
export function layOutStrings(region: Region, borders: readonly number[]): StringLayout {
  const count = borders[borders.length - 1] ?? 0;
  if (count + 4 > region.size) throw damage(region, `${region.size} bytes hold ${count} strings`);
  const lengthOffsets = new Float64Array(borders.length);
  const dataOffsets = new Float64Array(borders.length);
  const scan = new LengthScan(region, count);
  for (const [index, border] of borders.entries()) {
    scan.advanceTo(border);
    lengthOffsets[index] = scan.position;
    dataOffsets[index] = scan.dataBytes;
  }
  const lengthChecksum = new Uint8Array(4);
  region.read(scan.position, lengthChecksum);
  if (uint32At(lengthChecksum, 0) !== scan.maskedChecksum()) {
    throw damage(region, "the lengths of its strings do not match their checksum");
  }
  const dataStart = scan.position + 4;
  if (dataStart + scan.dataBytes !== region.size) {
    throw damage(region, `${region.size} bytes where ${dataStart + scan.dataBytes} belong`);
  }
  for (let index = 0; index < borders.length; index += 1) dataOffsets[index]! += dataStart;
  const checksumBytes = count * 4 + 4 + scan.dataBytes;
  return { count, borders, lengthOffsets, dataOffsets, lengthChecksum, checksumBytes };
}

/** The strings between two borders. @throws WinnowError DATA_LOSS, RESOURCE_EXHAUSTED over 4 GiB */
export function readStringRange(
  region: Region,
  layout: StringLayout,
  border: { readonly from: number; readonly to: number },
): StringRange {
  const { lengthOffsets, dataOffsets, borders } = layout;
  const count = borders[border.to]! - borders[border.from]!;
  const lengthsAt = lengthOffsets[border.from]!;
  const lengthBytes = new Uint8Array(lengthOffsets[border.to]! - lengthsAt);
  region.read(lengthsAt, lengthBytes);
  const dataAt = dataOffsets[border.from]!;
  const dataBytes = dataOffsets[border.to]! - dataAt;
  if (dataBytes > LENGTH_MAX) {
    const why = `${count} strings take ${dataBytes} bytes; one partition holds at most 4 GiB`;
    throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${region.name}: ${why}`);
  }
  const lengths = new Uint32Array(count);
  const offsets = new Uint32Array(count + 1);
  const cursor = new ByteCursor(lengthBytes, region.name, lengthsAt);
  let end = 0;
  for (let index = 0; index < count; index += 1) {
    lengths[index] = cursor.varint();
    end += lengths[index]!;
    offsets[index + 1] = end;
  }
  if (end !== dataBytes) throw damage(region, "it changed while it was read");
  const bytes = new Uint8Array(dataBytes);
  region.read(dataAt, bytes);

  const lengthsAfter = layout.count - borders[border.to]!;
  const allData = region.size - dataOffsets[0]!;
  const lengthsShare = checksumShare(bytesOf(lengths), lengthsAfter * 4 + 4 + allData);
  const dataShare = checksumShare(bytes, region.size - dataAt - dataBytes);
  return { strings: new StringColumn(offsets, bytes), share: lengthsShare ^ dataShare };
}

/** The share of the four bytes between lengths and data, which belong to no string. */
export function lengthChecksumShare(region: Region, layout: StringLayout): number {
  return checksumShare(layout.lengthChecksum, region.size - layout.dataOffsets[0]!);
}

/** Reads varint lengths in pieces of the region, and computes the checksum of them as uint32. */
class LengthScan {
  readonly #region: Region;
  readonly #count: number;
  readonly #words = new Int32Array(SCAN_BYTES / 4);
  #piece = new ByteCursor(new Uint8Array(), "");
  #pieceStart = 0;
  #pending = 0;
  #register = -1;
  #index = 0;
  dataBytes = 0;

  constructor(region: Region, count: number) {
    this.#region = region;
    this.#count = count;
  }

  /** Position of the next length in the region. */
  get position(): number {
    return this.#pieceStart + this.#piece.position;
  }

  advanceTo(border: number): void {
    for (; this.#index < border; this.#index += 1) {
      if (this.#piece.end - this.#piece.position < VARINT_BYTES_MAX) this.#refill();
      const length = this.#piece.varint();
      if (length > LENGTH_MAX) {
        const why = `string ${this.#index} is longer than 4 GiB`;
        throw new WinnowError("UNIMPLEMENTED", `Cannot read ${this.#region.name}: ${why}`);
      }
      this.dataBytes += length;
      if (this.#pending === this.#words.length) this.#flush();
      this.#words[this.#pending] = length;
      this.#pending += 1;
    }
  }

  maskedChecksum(): number {
    this.#flush();
    return maskChecksum(~this.#register >>> 0);
  }

  #flush(): void {
    const span = { start: 0, end: this.#pending };
    this.#register = extendRegisterByWords(this.#register, this.#words, span);
    this.#pending = 0;
  }

  #refill(): void {
    const start = this.position;
    // At least one byte per length that is left, and the checksum: few bytes behind them are read.
    const guess = Math.max(SCAN_BYTES_MIN, this.#count - this.#index + 4);
    const size = Math.min(SCAN_BYTES, guess, this.#region.size - start);
    if (start === this.#pieceStart && size === this.#piece.end) return;
    const bytes = new Uint8Array(size);
    this.#region.read(start, bytes);
    this.#piece = new ByteCursor(bytes, this.#region.name, start);
    this.#pieceStart = start;
  }
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

function damage(region: Region, why: string): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read ${region.name}: ${why}`);
}
