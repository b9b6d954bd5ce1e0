// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Keys as _winnow_shard_v1_Keys,
  Keys__Output as _winnow_shard_v1_Keys__Output,
} from "../../../winnow/shard/v1/Keys.ts";
import type {
  KeyedRows as _winnow_shard_v1_KeyedRows,
  KeyedRows__Output as _winnow_shard_v1_KeyedRows__Output,
} from "../../../winnow/shard/v1/KeyedRows.ts";

export interface TopKAsk {
  k?: number;
  queries?: number;
  /**
   * float32 LE [queries, dim]
   */
  vectors?: Buffer | Uint8Array | string;
  /**
   * none, one for all, or one per query: ids never to be returned
   */
  excluded?: _winnow_shard_v1_Keys[];
  /**
   * do not send ids
   */
  rows_only?: boolean;
  /**
   * none, one for all, or one per query: core/attributes/filter-text
   */
  filters?: string[];
  /**
   * none, one for all, or one per query: no other ids are returned
   */
  included?: _winnow_shard_v1_Keys[];
  /**
   * of each item returned
   */
  attributes?: string[];
  /**
   * $vector as bytes behind the object, see TopKAnswer; older workers write it as text
   */
  vector_bytes?: boolean;
  /**
   * $vector without what was added to rows for the search; older workers give whole rows
   */
  own_vectors?: boolean;
  /**
   * Rows of the ids returned are wanted of this table, too. Older workers give none, nor do workers that do not hold all of it.
   */
  item_rows?: _winnow_shard_v1_KeyedRows | null;
  /**
   * the rows may come in a reply of their own; older workers send them with the items
   */
  item_rows_later?: boolean;
  /**
   * $vector as bytes, if it is the only attribute, may come in a reply of its own after these rows; older workers send it with the items.
   */
  vectors_later?: boolean;
}

export interface TopKAsk__Output {
  k: number;
  queries: number;
  /**
   * float32 LE [queries, dim]
   */
  vectors: Buffer;
  /**
   * none, one for all, or one per query: ids never to be returned
   */
  excluded: _winnow_shard_v1_Keys__Output[];
  /**
   * do not send ids
   */
  rows_only: boolean;
  /**
   * none, one for all, or one per query: core/attributes/filter-text
   */
  filters: string[];
  /**
   * none, one for all, or one per query: no other ids are returned
   */
  included: _winnow_shard_v1_Keys__Output[];
  /**
   * of each item returned
   */
  attributes: string[];
  /**
   * $vector as bytes behind the object, see TopKAnswer; older workers write it as text
   */
  vector_bytes: boolean;
  /**
   * $vector without what was added to rows for the search; older workers give whole rows
   */
  own_vectors: boolean;
  /**
   * Rows of the ids returned are wanted of this table, too. Older workers give none, nor do workers that do not hold all of it.
   */
  item_rows: _winnow_shard_v1_KeyedRows__Output | null;
  /**
   * the rows may come in a reply of their own; older workers send them with the items
   */
  item_rows_later: boolean;
  /**
   * $vector as bytes, if it is the only attribute, may come in a reply of its own after these rows; older workers send it with the items.
   */
  vectors_later: boolean;
}
