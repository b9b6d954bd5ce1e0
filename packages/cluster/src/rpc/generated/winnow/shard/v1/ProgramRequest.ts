// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

export interface ProgramRequest {
  model?: string;
  version?: number | string | Long;
  fingerprint?: string;
  /**
   * keyed tables up to this size come along whole
   */
  table_bytes_max?: number | string | Long;
}

export interface ProgramRequest__Output {
  model: string;
  version: number;
  fingerprint: string;
  /**
   * keyed tables up to this size come along whole
   */
  table_bytes_max: number;
}
