// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Reply as _winnow_shard_v1_Reply,
  Reply__Output as _winnow_shard_v1_Reply__Output,
} from "../../../winnow/shard/v1/Reply.ts";

export interface ReplyBatch {
  replies?: _winnow_shard_v1_Reply[];
}

export interface ReplyBatch__Output {
  replies: _winnow_shard_v1_Reply__Output[];
}
