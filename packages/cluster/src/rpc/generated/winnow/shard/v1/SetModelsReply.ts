// Original file: proto/winnow/shard/v1/shard.proto

export interface SetModelsReply {}

export interface SetModelsReply__Output {}
