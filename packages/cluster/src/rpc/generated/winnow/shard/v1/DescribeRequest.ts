// Original file: proto/winnow/shard/v1/shard.proto

export interface DescribeRequest {}

export interface DescribeRequest__Output {}
