// Original file: proto/winnow/shard/v1/shard.proto

export interface GetOrderRequest {}

export interface GetOrderRequest__Output {}
