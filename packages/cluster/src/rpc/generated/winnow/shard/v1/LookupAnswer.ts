// Original file: proto/winnow/shard/v1/shard.proto

export interface LookupAnswer {
  /**
   * float32 LE [keys, dim], in the order of the keys
   */
  vectors?: Buffer | Uint8Array | string;
}

export interface LookupAnswer__Output {
  /**
   * float32 LE [keys, dim], in the order of the keys
   */
  vectors: Buffer;
}
