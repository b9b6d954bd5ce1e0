// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Strings as _winnow_shard_v1_Strings,
  Strings__Output as _winnow_shard_v1_Strings__Output,
} from "../../../winnow/shard/v1/Strings.ts";

export interface TopKAnswer {
  /**
   * room per query in scores and rows
   */
  k?: number;
  /**
   * uint32 LE [queries]
   */
  counts?: Buffer | Uint8Array | string;
  /**
   * float32 LE, filled positions only, query after query
   */
  scores?: Buffer | Uint8Array | string;
  /**
   * uint32 LE, likewise
   */
  rows?: Buffer | Uint8Array | string;
  id_strings?: _winnow_shard_v1_Strings | null;
  /**
   * int32 LE
   */
  id_int32?: Buffer | Uint8Array | string;
  /**
   * int64 LE
   */
  id_int64?: Buffer | Uint8Array | string;
  /**
   * a JSON object for each filled position
   */
  attributes?: _winnow_shard_v1_Strings | null;
  /**
   * behind each object is the vector: core/attributes/item-cell
   */
  vector_bytes?: boolean;
  /**
   * float32 LE [filled positions, dim]: the row of each id in the table that item_rows names
   */
  item_rows?: Buffer | Uint8Array | string;
  /**
   * they come later: a second reply of the same id, a LookupAnswer or Failure, follows
   */
  item_rows_later?: boolean;
  /**
   * instead of attributes: a third reply, a LookupAnswer of the items' vectors or a Failure, follows the second
   */
  vectors_later?: boolean;
  ids?: "id_strings" | "id_int32" | "id_int64";
}

export interface TopKAnswer__Output {
  /**
   * room per query in scores and rows
   */
  k: number;
  /**
   * uint32 LE [queries]
   */
  counts: Buffer;
  /**
   * float32 LE, filled positions only, query after query
   */
  scores: Buffer;
  /**
   * uint32 LE, likewise
   */
  rows: Buffer;
  id_strings?: _winnow_shard_v1_Strings__Output | null;
  /**
   * int32 LE
   */
  id_int32?: Buffer;
  /**
   * int64 LE
   */
  id_int64?: Buffer;
  /**
   * a JSON object for each filled position
   */
  attributes: _winnow_shard_v1_Strings__Output | null;
  /**
   * behind each object is the vector: core/attributes/item-cell
   */
  vector_bytes: boolean;
  /**
   * float32 LE [filled positions, dim]: the row of each id in the table that item_rows names
   */
  item_rows: Buffer;
  /**
   * they come later: a second reply of the same id, a LookupAnswer or Failure, follows
   */
  item_rows_later: boolean;
  /**
   * instead of attributes: a third reply, a LookupAnswer of the items' vectors or a Failure, follows the second
   */
  vectors_later: boolean;
  ids?: "id_strings" | "id_int32" | "id_int64";
}
