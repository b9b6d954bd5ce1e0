// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

export interface Pong {
  sequence?: number;
  queue_rows?: number;
  /**
   * grows with every batch and load step
   */
  progress?: number | string | Long;
  stalled?: boolean;
}

export interface Pong__Output {
  sequence: number;
  queue_rows: number;
  /**
   * grows with every batch and load step
   */
  progress: number;
  stalled: boolean;
}
