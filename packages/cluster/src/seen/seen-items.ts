// What users have seen, as another service keeps it in Redis: one set or sorted set of item ids for each key.
// Readers get at most as many as they ask for. A store that is lost, slow or overloaded fails the reading;
// the reader decides what this means for an answer.

import type { SeenType } from "@winnow/core";

/** A reading of one key. */
export interface SeenQuestion {
  readonly key: string;
  readonly type: SeenType;
  /** From a sorted set, the members with the largest scores are read. */
  readonly countMax: number;
}

/** The members of a key. */
export interface SeenMembers {
  /** At most `countMax`; none if the key does not exist. */
  readonly members: readonly Uint8Array[];
  /** Whether a set has further members, which were not read. */
  readonly isCut: boolean;
}

/** Reads what users have seen. */
export interface SeenItems {
  /**
   * Settles by itself within about a second.
   * @throws WinnowError UNAVAILABLE if the store does not answer or refuses, FAILED_PRECONDITION if the key
   * holds something of another type, RESOURCE_EXHAUSTED if too much is under way
   */
  read(question: SeenQuestion): Promise<SeenMembers>;
  close(): void;
}
