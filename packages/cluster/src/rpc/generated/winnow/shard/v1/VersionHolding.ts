// Original file: proto/winnow/shard/v1/shard.proto

import type {
  TableHolding as _winnow_shard_v1_TableHolding,
  TableHolding__Output as _winnow_shard_v1_TableHolding__Output,
} from "../../../winnow/shard/v1/TableHolding.ts";
import type { Long } from "@grpc/proto-loader";

export interface VersionHolding {
  model?: string;
  version?: number | string | Long;
  /**
   * "" while the directory has not been read
   */
  fingerprint?: string;
  /**
   * loading, ready (this worker's whole share), failed, unloading
   */
  state?: string;
  /**
   * gRPC status number, 0 if none
   */
  error_code?: number;
  error_message?: string;
  tables?: _winnow_shard_v1_TableHolding[];
  /**
   * this worker takes it for the default version
   */
  serving?: boolean;
  /**
   * bytes of the file of item updates that belong to it; 0: it has none
   */
  update_bytes?: number | string | Long;
}

export interface VersionHolding__Output {
  model: string;
  version: number;
  /**
   * "" while the directory has not been read
   */
  fingerprint: string;
  /**
   * loading, ready (this worker's whole share), failed, unloading
   */
  state: string;
  /**
   * gRPC status number, 0 if none
   */
  error_code: number;
  error_message: string;
  tables: _winnow_shard_v1_TableHolding__Output[];
  /**
   * this worker takes it for the default version
   */
  serving: boolean;
  /**
   * bytes of the file of item updates that belong to it; 0: it has none
   */
  update_bytes: number;
}
