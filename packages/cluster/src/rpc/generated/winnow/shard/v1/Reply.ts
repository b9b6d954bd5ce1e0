// Original file: proto/winnow/shard/v1/shard.proto

import type {
  TopKAnswer as _winnow_shard_v1_TopKAnswer,
  TopKAnswer__Output as _winnow_shard_v1_TopKAnswer__Output,
} from "../../../winnow/shard/v1/TopKAnswer.ts";
import type {
  LookupAnswer as _winnow_shard_v1_LookupAnswer,
  LookupAnswer__Output as _winnow_shard_v1_LookupAnswer__Output,
} from "../../../winnow/shard/v1/LookupAnswer.ts";
import type {
  Failure as _winnow_shard_v1_Failure,
  Failure__Output as _winnow_shard_v1_Failure__Output,
} from "../../../winnow/shard/v1/Failure.ts";
import type { Long } from "@grpc/proto-loader";

export interface Reply {
  id?: number | string | Long;
  /**
   * waited for the device
   */
  queue_us?: number;
  /**
   * on the device, whole batch
   */
  compute_us?: number;
  top_k?: _winnow_shard_v1_TopKAnswer | null;
  lookup?: _winnow_shard_v1_LookupAnswer | null;
  failure?: _winnow_shard_v1_Failure | null;
  answer?: "top_k" | "lookup" | "failure";
}

export interface Reply__Output {
  id: number;
  /**
   * waited for the device
   */
  queue_us: number;
  /**
   * on the device, whole batch
   */
  compute_us: number;
  top_k?: _winnow_shard_v1_TopKAnswer__Output | null;
  lookup?: _winnow_shard_v1_LookupAnswer__Output | null;
  failure?: _winnow_shard_v1_Failure__Output | null;
  answer?: "top_k" | "lookup" | "failure";
}
