// Writes frames: protobuf, and strings by their lengths, as frames hold them. The bytes equal those
// of protobufjs: fields by ascending number, zeros included.

import { ProtobufWriter } from "@winnow/core";

/** A frame that is being written. */
export class FrameWriter extends ProtobufWriter {
  #lengths = new Uint32Array(0);

  /** A bytes field: the differences of ascending positions, uint32 little-endian. */
  differences(field: number, positions: Uint32Array): this {
    const count = positions.length - 1;
    if (this.#lengths.length < count) this.#lengths = new Uint32Array(2 * count);
    const lengths = this.#lengths.subarray(0, count);
    for (let index = 0; index < count; index += 1) {
      lengths[index] = positions[index + 1]! - positions[index]!;
    }
    return this.bytes(field, lengths);
  }
}
