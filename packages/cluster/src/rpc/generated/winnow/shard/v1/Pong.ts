// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Heard as _winnow_shard_v1_Heard,
  Heard__Output as _winnow_shard_v1_Heard__Output,
} from "../../../winnow/shard/v1/Heard.ts";
import type { Long } from "@grpc/proto-loader";

export interface Pong {
  sequence?: number;
  queue_rows?: number;
  /**
   * grows with every batch and load step
   */
  progress?: number | string | Long;
  stalled?: boolean;
  /**
   * only to a ping that asks for it
   */
  heard?: _winnow_shard_v1_Heard[];
}

export interface Pong__Output {
  sequence: number;
  queue_rows: number;
  /**
   * grows with every batch and load step
   */
  progress: number;
  stalled: boolean;
  /**
   * only to a ping that asks for it
   */
  heard: _winnow_shard_v1_Heard__Output[];
}
