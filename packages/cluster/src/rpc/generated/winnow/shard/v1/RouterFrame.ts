// Original file: proto/winnow/shard/v1/shard.proto

import type {
  RouterHello as _winnow_shard_v1_RouterHello,
  RouterHello__Output as _winnow_shard_v1_RouterHello__Output,
} from "../../../winnow/shard/v1/RouterHello.ts";
import type {
  QueryBatch as _winnow_shard_v1_QueryBatch,
  QueryBatch__Output as _winnow_shard_v1_QueryBatch__Output,
} from "../../../winnow/shard/v1/QueryBatch.ts";
import type {
  Cancel as _winnow_shard_v1_Cancel,
  Cancel__Output as _winnow_shard_v1_Cancel__Output,
} from "../../../winnow/shard/v1/Cancel.ts";
import type {
  Ping as _winnow_shard_v1_Ping,
  Ping__Output as _winnow_shard_v1_Ping__Output,
} from "../../../winnow/shard/v1/Ping.ts";
import type {
  Predecessor as _winnow_shard_v1_Predecessor,
  Predecessor__Output as _winnow_shard_v1_Predecessor__Output,
} from "../../../winnow/shard/v1/Predecessor.ts";

export interface RouterFrame {
  hello?: _winnow_shard_v1_RouterHello | null;
  queries?: _winnow_shard_v1_QueryBatch | null;
  cancel?: _winnow_shard_v1_Cancel | null;
  ping?: _winnow_shard_v1_Ping | null;
  predecessor?: _winnow_shard_v1_Predecessor | null;
  frame?: "hello" | "queries" | "cancel" | "ping" | "predecessor";
}

export interface RouterFrame__Output {
  hello?: _winnow_shard_v1_RouterHello__Output | null;
  queries?: _winnow_shard_v1_QueryBatch__Output | null;
  cancel?: _winnow_shard_v1_Cancel__Output | null;
  ping?: _winnow_shard_v1_Ping__Output | null;
  predecessor?: _winnow_shard_v1_Predecessor__Output | null;
  frame?: "hello" | "queries" | "cancel" | "ping" | "predecessor";
}
