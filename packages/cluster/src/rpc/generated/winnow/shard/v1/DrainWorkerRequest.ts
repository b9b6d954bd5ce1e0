// Original file: proto/winnow/shard/v1/shard.proto

export interface DrainWorkerRequest {
  /**
   * signed: cluster/orders/drain-order
   */
  order?: string;
}

export interface DrainWorkerRequest__Output {
  /**
   * signed: cluster/orders/drain-order
   */
  order: string;
}
