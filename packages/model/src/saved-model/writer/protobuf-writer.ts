// Protocol Buffers out: the counterpart of protobuf-reader.ts. Fields are appended in the order of
// the calls; nested messages are written by a callback and wrapped with their length.

const encoder = new TextEncoder();

/** A message being written. */
export class ProtobufWriter {
  #bytes = new Uint8Array(256);
  #length = 0;

  /** int32, int64, enum or bool; negative numbers take ten bytes, as int64 does. */
  int(field: number, value: number | bigint): this {
    this.#varint(BigInt(field) << 3n);
    this.#varint(BigInt.asUintN(64, BigInt(value)));
    return this;
  }

  /** A fixed32. */
  fixed32(field: number, value: number): this {
    this.#varint((BigInt(field) << 3n) | 5n);
    const at = this.#reserve(4);
    new DataView(this.#bytes.buffer).setUint32(at, value, true);
    return this;
  }

  /** A length-delimited value. */
  bytes(field: number, value: Uint8Array): this {
    this.#varint((BigInt(field) << 3n) | 2n);
    this.#varint(BigInt(value.length));
    const at = this.#reserve(value.length);
    this.#bytes.set(value, at);
    return this;
  }

  /** UTF-8 text. */
  text(field: number, value: string): this {
    return this.bytes(field, encoder.encode(value));
  }

  /** A nested message. */
  message(field: number, write: (message: ProtobufWriter) => void): this {
    const nested = new ProtobufWriter();
    write(nested);
    return this.bytes(field, nested.finish());
  }

  /** An entry of a map with string keys. */
  entry(field: number, key: string, write: (value: ProtobufWriter) => void): this {
    return this.message(field, (entry) => entry.text(1, key).message(2, write));
  }

  /** What was written, a view. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #varint(value: bigint): void {
    let left = value;
    for (; left >= 0x80n; left >>= 7n) this.#byte(Number(left & 0x7fn) | 0x80);
    this.#byte(Number(left));
  }

  #byte(value: number): void {
    const at = this.#reserve(1);
    this.#bytes[at] = value;
  }

  #reserve(size: number): number {
    const at = this.#length;
    this.#length += size;
    if (this.#length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#length, this.#bytes.length * 2));
      grown.set(this.#bytes.subarray(0, at));
      this.#bytes = grown;
    }
    return at;
  }
}
