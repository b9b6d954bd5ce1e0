// Original file: proto/winnow/shard/v1/shard.proto

export interface GetOrderReply {
  /**
   * "": none
   */
  order?: string;
}

export interface GetOrderReply__Output {
  /**
   * "": none
   */
  order: string;
}
