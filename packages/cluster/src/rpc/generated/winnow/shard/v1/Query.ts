// Original file: proto/winnow/shard/v1/shard.proto

import type {
  TopKAsk as _winnow_shard_v1_TopKAsk,
  TopKAsk__Output as _winnow_shard_v1_TopKAsk__Output,
} from "../../../winnow/shard/v1/TopKAsk.ts";
import type {
  LookupAsk as _winnow_shard_v1_LookupAsk,
  LookupAsk__Output as _winnow_shard_v1_LookupAsk__Output,
} from "../../../winnow/shard/v1/LookupAsk.ts";
import type { Long } from "@grpc/proto-loader";

export interface Query {
  /**
   * unique within the stream
   */
  id?: number | string | Long;
  /**
   * until the client's deadline, at sending: no clock skew
   */
  remaining_ms?: number;
  model?: string;
  version?: number | string | Long;
  fingerprint?: string;
  /**
   * position in the program's tables
   */
  table?: number;
  /**
   * uint16 LE each, ascending: exactly these are asked for
   */
  partitions?: Buffer | Uint8Array | string;
  top_k?: _winnow_shard_v1_TopKAsk | null;
  lookup?: _winnow_shard_v1_LookupAsk | null;
  /**
   * Of a traced request alone: trace id (16 bytes), span id (8), flags (1), as in W3C's traceparent. What
   * has another length is passed over.
   */
  trace?: Buffer | Uint8Array | string;
  ask?: "top_k" | "lookup";
}

export interface Query__Output {
  /**
   * unique within the stream
   */
  id: number;
  /**
   * until the client's deadline, at sending: no clock skew
   */
  remaining_ms: number;
  model: string;
  version: number;
  fingerprint: string;
  /**
   * position in the program's tables
   */
  table: number;
  /**
   * uint16 LE each, ascending: exactly these are asked for
   */
  partitions: Buffer;
  top_k?: _winnow_shard_v1_TopKAsk__Output | null;
  lookup?: _winnow_shard_v1_LookupAsk__Output | null;
  /**
   * Of a traced request alone: trace id (16 bytes), span id (8), flags (1), as in W3C's traceparent. What
   * has another length is passed over.
   */
  trace: Buffer;
  ask?: "top_k" | "lookup";
}
