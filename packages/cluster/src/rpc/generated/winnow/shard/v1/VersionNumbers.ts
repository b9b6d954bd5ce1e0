// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

export interface VersionNumbers {
  versions?: (number | string | Long)[];
}

export interface VersionNumbers__Output {
  versions: number[];
}
