// Original file: proto/winnow/shard/v1/shard.proto

/**
 * Orders are signed texts (cluster/orders/models-order): the same bytes in a store, in a file and here.
 */
export interface FollowOrderRequest {
  /**
   * followed if it is higher than the one known
   */
  order?: string;
  /**
   * only judged: refused as an order would be, in the worker's words
   */
  draft?: string;
  what?: "order" | "draft";
}

/**
 * Orders are signed texts (cluster/orders/models-order): the same bytes in a store, in a file and here.
 */
export interface FollowOrderRequest__Output {
  /**
   * followed if it is higher than the one known
   */
  order?: string;
  /**
   * only judged: refused as an order would be, in the worker's words
   */
  draft?: string;
  what?: "order" | "draft";
}
