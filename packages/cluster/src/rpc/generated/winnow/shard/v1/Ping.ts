// Original file: proto/winnow/shard/v1/shard.proto

/**
 * Asks whether the compute side makes progress; never answered by the event loop's health alone.
 */
export interface Ping {
  sequence?: number;
  /**
   * another worker asks: it pings seldom, and wants to know whom this one hears
   */
  wants_heard?: boolean;
  /**
   * some member does not answer the worker that asks: this one is to ask the others too
   */
  in_doubt?: boolean;
}

/**
 * Asks whether the compute side makes progress; never answered by the event loop's health alone.
 */
export interface Ping__Output {
  sequence: number;
  /**
   * another worker asks: it pings seldom, and wants to know whom this one hears
   */
  wants_heard: boolean;
  /**
   * some member does not answer the worker that asks: this one is to ask the others too
   */
  in_doubt: boolean;
}
