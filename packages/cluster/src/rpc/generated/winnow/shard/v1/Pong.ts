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
  /**
   * begun since its start; 0 of a release that does not count them
   */
  scans?: number | string | Long;
  /**
   * query vectors in them
   */
  scanned_queries?: number | string | Long;
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
  /**
   * begun since its start; 0 of a release that does not count them
   */
  scans: number;
  /**
   * query vectors in them
   */
  scanned_queries: number;
}
