// Where a whole cluster keeps its models order: one signed text. With a fixed list of members there is
// no such place; each process keeps its own copy then (`order-book.ts`).

/** One text that all processes of a cluster share. It may be anybody's: readers check it. */
export interface OrderStore {
  /** The text; `undefined` where there is none. @throws when the store does not answer */
  read(): Promise<string | undefined>;
  /**
   * Puts `text` in place of `previous`, at once or not at all: false where something else is there.
   * @throws when the store does not answer, after which it may have been done
   */
  replace(text: string, previous: string | undefined): Promise<boolean>;
  /**
   * Calls `listener` with the text of every reading, also where it is the same: soon, after a change,
   * and every 2 s. Returns an end.
   */
  watch(listener: (text: string | undefined) => void): () => void;
}
