// Original file: proto/winnow/shard/v1/shard.proto

import type { Long } from "@grpc/proto-loader";

/**
 * The router has met an incarnation of this worker with a higher number, which does not answer any
 * more, and takes this process for the next: it is to announce a number above.
 */
export interface Predecessor {
  incarnation?: number | string | Long;
}

/**
 * The router has met an incarnation of this worker with a higher number, which does not answer any
 * more, and takes this process for the next: it is to announce a number above.
 */
export interface Predecessor__Output {
  incarnation: number;
}
