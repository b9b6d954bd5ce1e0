// What users have seen, as a service keeps it in Redis: one set or sorted set of item ids for each key. Readers get
// no more than they ask for. A store that is lost, slow or crowded fails the reading; what that means for an answer
// is the reader's to decide.

import type { SeenType } from "@winnow/core";

/** What is asked of one key. */
export interface SeenQuestion {
  readonly key: string;
  readonly type: SeenType;
  /** Of a sorted set these are the members with the largest scores. */
  readonly countMax: number;
}

/** What a key has. */
export interface SeenMembers {
  /** At most `countMax`; none for a key that does not exist. */
  readonly members: readonly Uint8Array[];
  /** A set has more of them, which were not read. */
  readonly isCut: boolean;
}

/** Reads what users have seen. */
export interface SeenItems {
  /**
   * Settles by itself within about a second.
   * @throws WinnowError UNAVAILABLE where the store does not answer or refuses, RESOURCE_EXHAUSTED for too much
   * under way
   */
  read(question: SeenQuestion): Promise<SeenMembers>;
  close(): void;
}
