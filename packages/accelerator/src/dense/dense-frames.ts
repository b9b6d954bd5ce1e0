// The messages between the dense engine and its processes, over a socket that carries bytes:
//
//   8 bytes    length of the header and of the whole frame / 8, uint32 little-endian each
//   8 bytes    ms that the request took, float64 little-endian; 0 in requests
//   header     JSON, padded with spaces to a multiple of 8 bytes
//   arrays     one after the other, each padded to a multiple of 8 bytes
//
// Runs of one model with inputs of the same shapes have the same header, which therefore is written and read once
// for all that follow each other.
//
// Everything begins at a multiple of 8 bytes, so that arrays that were read can be used without a copy.

import { WinnowError, dtypeArrays, elementCount, isDtype } from "@winnow/core";
import type { NumericDtype, Tensor } from "@winnow/core";

/** Name, element type and shape of a tensor whose values are in the frame. */
export type TensorHeader = readonly [name: string, dtype: NumericDtype, shape: readonly number[]];

/**
 * Shapes of inputs and outputs by name, as far as they are known without a run: -1 for a size that is not, and []
 * also where not even the number of sizes is.
 */
export interface DenseShapes {
  readonly inputs: Readonly<Record<string, readonly number[]>>;
  readonly outputs: Readonly<Record<string, readonly number[]>>;
}

/** A request to the process. Requests are answered in order, each with one `DenseAnswer`. */
export type DenseRequest =
  /** The model's bytes are the only array. */
  | { readonly kind: "load"; readonly model: number; readonly bytes: number }
  | {
      readonly kind: "run";
      readonly model: number;
      readonly inputs: readonly TensorHeader[];
      readonly outputs: readonly string[];
    }
  | { readonly kind: "release"; readonly model: number };

/** What the process sends: first that it has started, then an answer to each request. */
export type DenseAnswer =
  | { readonly kind: "ready" }
  /** `outputs` are the tensors of a run, and `shapes` what is known of a model that was loaded. */
  | {
      readonly kind: "done";
      readonly outputs: readonly TensorHeader[];
      readonly shapes?: DenseShapes | undefined;
    }
  | { readonly kind: "failed"; readonly message: string };

/** A frame that was read. */
export interface Frame<Header> {
  readonly header: Header;
  /** The time that the request took; 0 in requests. */
  readonly ms: number;
  /** The arrays, in memory of their own. */
  readonly body: Uint8Array<ArrayBuffer>;
}

/** A tensor, and its name in the model. */
export type NamedTensor = readonly [name: string, tensor: Tensor];

const PREFIX_BYTES = 16;
const MS_AT = 8;
const UNIT_BYTES = 8;
const SPACE = 0x20;
/** 2 GiB: the largest ONNX file, and more than the answers to a request may have. */
const FRAME_BYTES_MAX = 2 ** 31 + 2 ** 20;

const upToUnit = (bytes: number): number => Math.ceil(bytes / UNIT_BYTES) * UNIT_BYTES;

/** The beginning of a frame up to its arrays, which the caller sends afterwards, padded to `bodyBytes` in all. */
export function frameStart(
  header: DenseRequest | DenseAnswer,
  bodyBytes: number,
): Uint8Array<ArrayBuffer> {
  return newFrame(header, { heldBytes: 0, bodyBytes, ms: 0 });
}

/**
 * A whole frame of tensors; `ms` is the time that a request took. @throws RangeError for strings: ONNX Runtime computes with numbers only
 */
export function tensorFrame(
  header: DenseRequest | DenseAnswer,
  tensors: readonly Tensor[],
  ms = 0,
): Uint8Array<ArrayBuffer> {
  let bodyBytes = 0;
  for (const { dtype, data } of tensors) {
    if (dtype === "string") throw new RangeError("a string tensor cannot be run");
    bodyBytes += upToUnit(data.byteLength);
  }
  const frame = newFrame(header, { heldBytes: bodyBytes, bodyBytes, ms });
  let at = frame.length - bodyBytes;
  for (const { dtype, data } of tensors) {
    if (dtype === "string") continue;
    frame.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    const end = at + data.byteLength;
    at += upToUnit(data.byteLength);
    frame.fill(0, end, at);
  }
  return frame;
}

/** Makes a frame; `heldBytes` of the `bodyBytes` are in this array, for the caller to write. */
function newFrame(
  header: DenseRequest | DenseAnswer,
  {
    heldBytes,
    bodyBytes,
    ms,
  }: { readonly heldBytes: number; readonly bodyBytes: number; readonly ms: number },
): Uint8Array<ArrayBuffer> {
  const text = textOf(header);
  const start = PREFIX_BYTES + text.length;
  const whole = start + upToUnit(bodyBytes);
  if (whole > FRAME_BYTES_MAX) {
    const message = `A dense part or its tensors have ${bodyBytes} bytes, more than ${FRAME_BYTES_MAX}`;
    throw new WinnowError("RESOURCE_EXHAUSTED", message);
  }
  const frame = Buffer.allocUnsafe(start + heldBytes);
  frame.writeUInt32LE(text.length, 0);
  frame.writeUInt32LE(whole / UNIT_BYTES, 4);
  frame.writeDoubleLE(ms, MS_AT);
  frame.set(text, PREFIX_BYTES);
  return frame;
}

/** The header that was written last, and its text. */
let last: { readonly header: DenseRequest | DenseAnswer; readonly text: Uint8Array } | undefined;

/** A header as JSON, with the spaces that it is padded with. */
function textOf(header: DenseRequest | DenseAnswer): Uint8Array {
  if (last !== undefined && isSameHeader(last.header, header)) return last.text;
  const json = Buffer.from(JSON.stringify(header));
  const text = new Uint8Array(upToUnit(json.length)).fill(SPACE);
  text.set(json);
  last = { header, text };
  return text;
}

/** Whether two headers of runs, or of their answers, are equal; `false` for all others. */
function isSameHeader(one: DenseRequest | DenseAnswer, other: DenseRequest | DenseAnswer): boolean {
  if (one.kind === "run" && other.kind === "run") {
    const isSameModel = one.model === other.model && areSame(one.outputs, other.outputs);
    return isSameModel && areSameTensors(one.inputs, other.inputs);
  }
  if (one.kind !== "done" || other.kind !== "done") return false;
  const isOfRuns = one.shapes === undefined && other.shapes === undefined;
  return isOfRuns && areSameTensors(one.outputs, other.outputs);
}

function areSame<Value>(ones: readonly Value[], others: readonly Value[]): boolean {
  if (ones.length !== others.length) return false;
  for (let at = 0; at < ones.length; at += 1) if (ones[at] !== others[at]) return false;
  return true;
}

function areSameTensors(ones: readonly TensorHeader[], others: readonly TensorHeader[]): boolean {
  if (ones.length !== others.length) return false;
  for (let at = 0; at < ones.length; at += 1) {
    const one = ones[at]!;
    const other = others[at]!;
    if (one[0] !== other[0] || one[1] !== other[1] || !areSame(one[2], other[2])) return false;
  }
  return true;
}

/** The padding after an array, up to the multiple at which the next one begins. */
export function fillUp(bytes: number): Uint8Array {
  return new Uint8Array(upToUnit(bytes) - bytes);
}

/** The headers of some tensors, in their order. */
export function tensorHeaders(tensors: readonly NamedTensor[]): TensorHeader[] {
  return tensors.map(([name, { dtype, shape }]) => [name, dtype as NumericDtype, shape]);
}

/** The tensors of a frame, as views of its body. @throws RangeError if they do not fit into it */
export function tensorsOf(
  headers: readonly TensorHeader[],
  body: Uint8Array<ArrayBuffer>,
): NamedTensor[] {
  let at = body.byteOffset;
  const tensors = headers.map(([name, dtype, shape]): NamedTensor => {
    if (!isDtype(dtype)) throw new RangeError(`element type ${String(dtype)}`);
    const data = new dtypeArrays[dtype](body.buffer, at, elementCount(shape));
    at += upToUnit(data.byteLength);
    return [name, { dtype, shape, data } as Tensor];
  });
  if (at > body.byteOffset + body.length) throw new RangeError("tensors beyond their frame");
  return tensors;
}

function bufferOver({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** Cuts a stream of bytes into frames. */
export class FrameReader<Header> {
  readonly #prefix = new Uint8Array(PREFIX_BYTES);
  #prefixBytes = 0;
  #frame: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0;
  #headerBytes = 0;
  #ms = 0;
  /** The header that was read last, and its bytes. */
  #last: { readonly header: Header; readonly text: Buffer } | undefined;

  /** The frames that end with this piece. @throws RangeError, SyntaxError for bytes that are not a frame */
  read(piece: Uint8Array): Frame<Header>[] {
    const frames: Frame<Header>[] = [];
    const bytes = Buffer.isBuffer(piece) ? piece : bufferOver(piece);
    let at = 0;
    while (at < piece.length) {
      const whole = this.#wholeFrame(bytes, at);
      if (whole !== undefined) {
        frames.push(whole.frame);
        at = whole.end;
        continue;
      }
      at += this.#frame === undefined ? this.#fillPrefix(piece, at) : this.#fillFrame(piece, at);
      if (this.#frame !== undefined && this.#filled === this.#frame.length) {
        frames.push(this.#take(this.#frame));
      }
    }
    return frames;
  }

  /** A frame that begins and ends within a piece, as most do: its header is read from there. */
  #wholeFrame(
    piece: Buffer,
    from: number,
  ): { readonly frame: Frame<Header>; readonly end: number } | undefined {
    if (this.#frame !== undefined || this.#prefixBytes > 0) return undefined;
    if (piece.length - from < PREFIX_BYTES) return undefined;
    const bodyAt = from + PREFIX_BYTES + piece.readUInt32LE(from);
    const end = from + piece.readUInt32LE(from + 4) * UNIT_BYTES;
    if (end > piece.length || bodyAt > end) return undefined;
    const header = this.#headerOf(piece, from + PREFIX_BYTES, bodyAt);
    const ms = piece.readDoubleLE(from + MS_AT);
    return { frame: { header, ms, body: new Uint8Array(piece.subarray(bodyAt, end)) }, end };
  }

  #headerOf(piece: Buffer, from: number, end: number): Header {
    const { header, text } = this.#last ?? {};
    if (text?.length === end - from && piece.compare(text, 0, text.length, from, end) === 0) {
      return header!;
    }
    const read = JSON.parse(piece.toString("utf8", from, end)) as Header;
    this.#last = { header: read, text: Buffer.from(piece.subarray(from, end)) };
    return read;
  }

  #fillPrefix(piece: Uint8Array, from: number): number {
    const taken = Math.min(PREFIX_BYTES - this.#prefixBytes, piece.length - from);
    this.#prefix.set(piece.subarray(from, from + taken), this.#prefixBytes);
    this.#prefixBytes += taken;
    if (this.#prefixBytes < PREFIX_BYTES) return taken;
    const view = new DataView(this.#prefix.buffer);
    this.#headerBytes = view.getUint32(0, true);
    const bytes = view.getUint32(4, true) * UNIT_BYTES;
    this.#ms = view.getFloat64(MS_AT, true);
    if (bytes > FRAME_BYTES_MAX || PREFIX_BYTES + this.#headerBytes > bytes) {
      throw new RangeError(`a frame of ${bytes} bytes with a header of ${this.#headerBytes}`);
    }
    this.#frame = new Uint8Array(bytes - PREFIX_BYTES);
    this.#filled = 0;
    return taken;
  }

  #fillFrame(piece: Uint8Array, from: number): number {
    const frame = this.#frame!;
    const taken = Math.min(frame.length - this.#filled, piece.length - from);
    frame.set(piece.subarray(from, from + taken), this.#filled);
    this.#filled += taken;
    return taken;
  }

  #take(frame: Uint8Array<ArrayBuffer>): Frame<Header> {
    this.#frame = undefined;
    this.#prefixBytes = 0;
    const text = Buffer.from(frame.buffer, 0, this.#headerBytes).toString();
    const header = JSON.parse(text) as Header;
    return { header, ms: this.#ms, body: frame.subarray(this.#headerBytes) };
  }
}
