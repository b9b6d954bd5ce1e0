// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

export interface Cancel {
  id?: number | string | Long;
}

export interface Cancel__Output {
  id: number;
}
