// Original file: proto/winnow/shard/v1/shard.proto

export interface FollowOrderReply {}

export interface FollowOrderReply__Output {}
