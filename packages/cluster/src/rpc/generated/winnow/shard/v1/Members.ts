// Original file: proto/winnow/shard/v1/shard.proto

import type {
  Member as _winnow_shard_v1_Member,
  Member__Output as _winnow_shard_v1_Member__Output,
} from "../../../winnow/shard/v1/Member.ts";

/**
 * What the worker knows of where other workers are: hints where to connect. The first frames of a
 * stream tell of all, later ones of changes alone.
 */
export interface Members {
  members?: _winnow_shard_v1_Member[];
}

/**
 * What the worker knows of where other workers are: hints where to connect. The first frames of a
 * stream tell of all, later ones of changes alone.
 */
export interface Members__Output {
  members: _winnow_shard_v1_Member__Output[];
}
