// Original file: proto/winnow/shard/v1/shard.proto

export interface TableHolding {
  table?: number;
  /**
   * of the whole table
   */
  partitions?: number;
  /**
   * one bit per partition that is ready here
   */
  held?: Buffer | Uint8Array | string;
  /**
   * uint32 LE [held partitions, sources]: checksum shares
   */
  shares?: Buffer | Uint8Array | string;
  sources?: number;
}

export interface TableHolding__Output {
  table: number;
  /**
   * of the whole table
   */
  partitions: number;
  /**
   * one bit per partition that is ready here
   */
  held: Buffer;
  /**
   * uint32 LE [held partitions, sources]: checksum shares
   */
  shares: Buffer;
  sources: number;
}
