// Tensors as the extension "binary_tensor_data" of the Open Inference Protocol lays them out behind the JSON
// of a request or an answer: values in row-major order, little-endian, bools as one byte, and each string
// after its length in four bytes. All machines that Winnow runs on are little-endian, so numbers are copied
// unchanged.
//
//   numbers   values as in memory
//   strings   uint32 length, bytes; uint32 length, bytes; …

import { StringColumn, WinnowError, dtypeArrays, elementCount, nextLoopTurn } from "@winnow/core";
import type { Dtype, Tensor } from "@winnow/core";
import { BYTES_OF_WORK, atOnce, turnMeter } from "../../../turns/turns.ts";
import type { Steps } from "../../../turns/turns.ts";
import { STRING_WORK, copyingBytes, makingFlags } from "../../../turns/values-in-turns.ts";

const LENGTH_BYTES = 4;
/** Values that are written before other work may run. */
const PIECE_VALUES = 16 * 1024;

/** What is known of a tensor before its bytes are read. `name` is for messages. */
interface BinaryOutline {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** As `readingBinaryTensor`, without a pause. */
export function readBinaryTensor(bytes: Uint8Array, outline: BinaryOutline): Tensor {
  return atOnce(readingBinaryTensor(bytes, outline));
}

/**
 * Copies these bytes into a tensor; pauses where a turn of the event loop is to end.
 * @throws WinnowError INVALID_ARGUMENT for too few or too many bytes for the shape
 */
export function* readingBinaryTensor(
  bytes: Uint8Array,
  { name, dtype, shape }: BinaryOutline,
): Steps<Tensor> {
  const count = elementCount(shape);
  if (dtype === "string") return { dtype, shape, data: yield* readingStrings(bytes, count, name) };
  const valueBytes = dtypeArrays[dtype].BYTES_PER_ELEMENT;
  if (bytes.length !== count * valueBytes) {
    refuse(
      `Input "${name}" has ${bytes.length} bytes of binary data; shape [${shape.join(",")}] needs ` +
        `${count * valueBytes}`,
    );
  }
  const memory = new ArrayBuffer(bytes.length);
  const copy = new Uint8Array(memory);
  const isTurnOver = turnMeter();
  yield* copyingBytes(copy, 0, { source: bytes, isTurnOver });
  if (dtype === "bool") yield* makingFlags(copy, isTurnOver);
  return { dtype, shape, data: new dtypeArrays[dtype](memory) } as Tensor;
}

function* readingStrings(bytes: Uint8Array, count: number, name: string): Steps<StringColumn> {
  const isTurnOver = turnMeter();
  const total = bytes.length - count * LENGTH_BYTES;
  // Checked before anything is allocated, because the count comes from the client.
  if (total < 0) refuseStrings(name, count);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const offsets = new Uint32Array(count + 1);
  const content = new Uint8Array(total);
  let at = 0;
  let end = 0;
  for (let index = 0; index < count; index++) {
    if (at + LENGTH_BYTES > bytes.length) refuseStrings(name, count);
    const length = view.getUint32(at, true);
    at += LENGTH_BYTES;
    if (end + length > total || at + length > bytes.length) refuseStrings(name, count);
    content.set(bytes.subarray(at, at + length), end);
    at += length;
    end += length;
    offsets[index + 1] = end;
    if (isTurnOver(STRING_WORK + length / BYTES_OF_WORK)) yield;
  }
  if (at !== bytes.length) refuseStrings(name, count);
  return new StringColumn(offsets, content);
}

function refuseStrings(name: string, count: number): never {
  refuse(
    `The binary data of input "${name}" does not hold ${count} strings: each is its length in four bytes, ` +
      "little-endian, and that many bytes",
  );
}

/** Bytes that a tensor takes. */
export function binaryBytes({ dtype, data }: Tensor): number {
  if (dtype === "string") return data.byteLength + data.length * LENGTH_BYTES;
  return data.byteLength;
}

/** Writes a tensor at a position that has room for it; a long one in pieces, between which other work may run. */
export async function writeBinaryTensor(
  target: Buffer,
  position: number,
  { dtype, data }: Tensor,
): Promise<void> {
  if (dtype !== "string") {
    target.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), position);
    return;
  }
  let at = position;
  for (let index = 0; index < data.length; index++) {
    if (index > 0 && index % PIECE_VALUES === 0) {
      await nextLoopTurn();
    }
    const string = data.at(index);
    at = target.writeUInt32LE(string.length, at);
    target.set(string, at);
    at += string.length;
  }
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
