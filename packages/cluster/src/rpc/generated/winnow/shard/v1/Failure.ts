// Original file: proto/winnow/shard/v1/shard.proto

export interface Failure {
  /**
   * gRPC status number
   */
  code?: number;
  /**
   * NOT_OWNER, NO_VERSION, EXPIRED, OVERLOADED, INVALID_KEY, INTERNAL
   */
  reason?: string;
  /**
   * at most 1 KB, never echoes input beyond 256 characters
   */
  message?: string;
}

export interface Failure__Output {
  /**
   * gRPC status number
   */
  code: number;
  /**
   * NOT_OWNER, NO_VERSION, EXPIRED, OVERLOADED, INVALID_KEY, INTERNAL
   */
  reason: string;
  /**
   * at most 1 KB, never echoes input beyond 256 characters
   */
  message: string;
}
