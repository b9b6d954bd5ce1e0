// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Query as _winnow_shard_v1_Query,
  Query__Output as _winnow_shard_v1_Query__Output,
} from "../../../winnow/shard/v1/Query.ts";

export interface QueryBatch {
  queries?: _winnow_shard_v1_Query[];
}

export interface QueryBatch__Output {
  queries: _winnow_shard_v1_Query__Output[];
}
