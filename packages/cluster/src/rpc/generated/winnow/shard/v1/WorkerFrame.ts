// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Announcement as _winnow_shard_v1_Announcement,
  Announcement__Output as _winnow_shard_v1_Announcement__Output,
} from "../../../winnow/shard/v1/Announcement.ts";
import type {
  ReplyBatch as _winnow_shard_v1_ReplyBatch,
  ReplyBatch__Output as _winnow_shard_v1_ReplyBatch__Output,
} from "../../../winnow/shard/v1/ReplyBatch.ts";
import type {
  Pong as _winnow_shard_v1_Pong,
  Pong__Output as _winnow_shard_v1_Pong__Output,
} from "../../../winnow/shard/v1/Pong.ts";
import type {
  Drain as _winnow_shard_v1_Drain,
  Drain__Output as _winnow_shard_v1_Drain__Output,
} from "../../../winnow/shard/v1/Drain.ts";
import type {
  Members as _winnow_shard_v1_Members,
  Members__Output as _winnow_shard_v1_Members__Output,
} from "../../../winnow/shard/v1/Members.ts";

export interface WorkerFrame {
  /**
   * the first frame, and again whenever it changes
   */
  state?: _winnow_shard_v1_Announcement | null;
  replies?: _winnow_shard_v1_ReplyBatch | null;
  pong?: _winnow_shard_v1_Pong | null;
  drain?: _winnow_shard_v1_Drain | null;
  /**
   * only to a router whose hello asks for it
   */
  members?: _winnow_shard_v1_Members | null;
  frame?: "state" | "replies" | "pong" | "drain" | "members";
}

export interface WorkerFrame__Output {
  /**
   * the first frame, and again whenever it changes
   */
  state?: _winnow_shard_v1_Announcement__Output | null;
  replies?: _winnow_shard_v1_ReplyBatch__Output | null;
  pong?: _winnow_shard_v1_Pong__Output | null;
  drain?: _winnow_shard_v1_Drain__Output | null;
  /**
   * only to a router whose hello asks for it
   */
  members?: _winnow_shard_v1_Members__Output | null;
  frame?: "state" | "replies" | "pong" | "drain" | "members";
}
