// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Keys as _winnow_shard_v1_Keys,
  Keys__Output as _winnow_shard_v1_Keys__Output,
} from "../../../winnow/shard/v1/Keys.ts";

export interface LookupAsk {
  keys?: _winnow_shard_v1_Keys | null;
}

export interface LookupAsk__Output {
  keys: _winnow_shard_v1_Keys__Output | null;
}
