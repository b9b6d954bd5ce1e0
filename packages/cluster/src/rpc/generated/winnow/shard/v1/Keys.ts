// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Strings as _winnow_shard_v1_Strings,
  Strings__Output as _winnow_shard_v1_Strings__Output,
} from "../../../winnow/shard/v1/Strings.ts";

/**
 * Keys or identifiers.
 */
export interface Keys {
  strings?: _winnow_shard_v1_Strings | null;
  /**
   * int64 LE, also for int32 ids and row numbers
   */
  integers?: Buffer | Uint8Array | string;
  keys?: "strings" | "integers";
}

/**
 * Keys or identifiers.
 */
export interface Keys__Output {
  strings?: _winnow_shard_v1_Strings__Output | null;
  /**
   * int64 LE, also for int32 ids and row numbers
   */
  integers?: Buffer;
  keys?: "strings" | "integers";
}
