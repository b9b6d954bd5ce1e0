// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Keys as _winnow_shard_v1_Keys,
  Keys__Output as _winnow_shard_v1_Keys__Output,
} from "../../../winnow/shard/v1/Keys.ts";

export interface LookupAsk {
  keys?: _winnow_shard_v1_Keys | null;
  /**
   * whether the vocabulary has the keys; older workers pass over it and answer rows
   */
  known_only?: boolean;
}

export interface LookupAsk__Output {
  keys: _winnow_shard_v1_Keys__Output | null;
  /**
   * whether the vocabulary has the keys; older workers pass over it and answer rows
   */
  known_only: boolean;
}
