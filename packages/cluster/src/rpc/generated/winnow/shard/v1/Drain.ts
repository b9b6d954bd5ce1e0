// Original file: proto/winnow/shard/v1/shard.proto

/**
 * The worker takes nothing new; replies to what it has follow.
 */
export interface Drain {}

/**
 * The worker takes nothing new; replies to what it has follow.
 */
export interface Drain__Output {}
