// Original file: proto/winnow/shard/v1/shard.proto

export interface DrainWorkerReply {}

export interface DrainWorkerReply__Output {}
