// Original file: proto/winnow/shard/v1/shard.proto

import type {
  VersionNumbers as _winnow_shard_v1_VersionNumbers,
  VersionNumbers__Output as _winnow_shard_v1_VersionNumbers__Output,
} from "../../../winnow/shard/v1/VersionNumbers.ts";

export interface OrderedModel {
  name?: string;
  /**
   * absolute
   */
  base_path?: string;
  /**
   * so many of the newest versions
   */
  latest?: number;
  all?: boolean;
  specific?: _winnow_shard_v1_VersionNumbers | null;
  policy?: "latest" | "all" | "specific";
}

export interface OrderedModel__Output {
  name: string;
  /**
   * absolute
   */
  base_path: string;
  /**
   * so many of the newest versions
   */
  latest?: number;
  all?: boolean;
  specific?: _winnow_shard_v1_VersionNumbers__Output | null;
  policy?: "latest" | "all" | "specific";
}
