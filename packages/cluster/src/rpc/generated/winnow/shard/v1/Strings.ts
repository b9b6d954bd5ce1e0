// Original file: proto/winnow/shard/v1/shard.proto

/**
 * Packed byte strings.
 */
export interface Strings {
  /**
   * uint32 LE each
   */
  lengths?: Buffer | Uint8Array | string;
  data?: Buffer | Uint8Array | string;
}

/**
 * Packed byte strings.
 */
export interface Strings__Output {
  /**
   * uint32 LE each
   */
  lengths: Buffer;
  data: Buffer;
}
