// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

/**
 * When this worker last knew another one to be alive, and what it was then known to say.
 */
export interface Heard {
  worker_id?: string;
  incarnation?: number | string | Long;
  /**
   * of the announcement (cluster/announcement/announcement-digest)
   */
  digest?: number | string | Long;
  age_ms?: number;
}

/**
 * When this worker last knew another one to be alive, and what it was then known to say.
 */
export interface Heard__Output {
  worker_id: string;
  incarnation: number;
  /**
   * of the announcement (cluster/announcement/announcement-digest)
   */
  digest: number;
  age_ms: number;
}
