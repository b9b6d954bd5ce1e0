// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

export interface Member {
  worker_id?: string;
  /**
   * 0: known by a list alone
   */
  incarnation?: number | string | Long;
  address?: string;
  /**
   * nobody needs to look for this incarnation any more
   */
  gone?: boolean;
}

export interface Member__Output {
  worker_id: string;
  /**
   * 0: known by a list alone
   */
  incarnation: number;
  address: string;
  /**
   * nobody needs to look for this incarnation any more
   */
  gone: boolean;
}
