// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

/**
 * A table whose rows are looked up by keys.
 */
export interface KeyedRows {
  model?: string;
  version?: number | string | Long;
  fingerprint?: string;
  /**
   * position in the program's tables
   */
  table?: number;
}

/**
 * A table whose rows are looked up by keys.
 */
export interface KeyedRows__Output {
  model: string;
  version: number;
  fingerprint: string;
  /**
   * position in the program's tables
   */
  table: number;
}
