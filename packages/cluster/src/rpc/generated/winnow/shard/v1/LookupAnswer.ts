// Original file: proto/winnow/shard/v1/shard.proto

export interface LookupAnswer {
  /**
   * float32 LE [keys, dim], in the order of the keys
   */
  vectors?: Buffer | Uint8Array | string;
  /**
   * to known_only, instead of rows: for each key 1, or 0 where the vocabulary lacks it
   */
  known?: Buffer | Uint8Array | string;
}

export interface LookupAnswer__Output {
  /**
   * float32 LE [keys, dim], in the order of the keys
   */
  vectors: Buffer;
  /**
   * to known_only, instead of rows: for each key 1, or 0 where the vocabulary lacks it
   */
  known: Buffer;
}
