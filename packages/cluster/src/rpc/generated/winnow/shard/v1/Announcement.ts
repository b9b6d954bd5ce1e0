// Original file: proto/winnow/shard/v1/shard.proto

import type {
  VersionHolding as _winnow_shard_v1_VersionHolding,
  VersionHolding__Output as _winnow_shard_v1_VersionHolding__Output,
} from "../../../winnow/shard/v1/VersionHolding.ts";
import type { Long } from "@grpc/proto-loader";

export interface Announcement {
  worker_id?: string;
  incarnation?: number | string | Long;
  address?: string;
  /**
   * starting, ready, draining
   */
  state?: string;
  accelerator?: string;
  device?: string;
  memory_used_bytes?: number | string | Long;
  memory_capacity_bytes?: number | string | Long;
  versions?: _winnow_shard_v1_VersionHolding[];
  /**
   * the models order it follows, 0: none
   */
  order_number?: number | string | Long;
  order_id?: string;
  /**
   * of Winnow, "" before 0.2
   */
  release?: string;
  /**
   * the settings that all workers must agree on, as a person would write them
   */
  placement?: string;
  /**
   * workers that name the same machine share its processors, "": shares with nobody
   */
  machine?: string;
}

export interface Announcement__Output {
  worker_id: string;
  incarnation: number;
  address: string;
  /**
   * starting, ready, draining
   */
  state: string;
  accelerator: string;
  device: string;
  memory_used_bytes: number;
  memory_capacity_bytes: number;
  versions: _winnow_shard_v1_VersionHolding__Output[];
  /**
   * the models order it follows, 0: none
   */
  order_number: number;
  order_id: string;
  /**
   * of Winnow, "" before 0.2
   */
  release: string;
  /**
   * the settings that all workers must agree on, as a person would write them
   */
  placement: string;
  /**
   * workers that name the same machine share its processors, "": shares with nobody
   */
  machine: string;
}
