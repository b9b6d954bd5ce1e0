// Joins looks that are asked for in the same turn of the event loop into one: a look at the directories of all models
// is then one step of Node's thread pool and one wake-up of the event loop, and holds one thread of the pool if the
// file system does not answer.

import type { AskedFolder, FolderEntry, LookIntoFolders } from "@winnow/accelerator";

type Found = readonly (readonly FolderEntry[] | undefined)[];

interface Waiting {
  readonly folders: readonly AskedFolder[];
  readonly resolve: (found: Found) => void;
  readonly reject: (error: unknown) => void;
}

/** Asks `look` once for all folders of a turn. */
export function joinedLooks(look: LookIntoFolders): LookIntoFolders {
  let waiting: Waiting[] = [];
  const lookOnce = async (): Promise<void> => {
    const asked = waiting;
    waiting = [];
    try {
      const found = await look(asked.flatMap(({ folders }) => folders));
      let first = 0;
      for (const { folders, resolve } of asked) {
        resolve(found.slice(first, first + folders.length));
        first += folders.length;
      }
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  };
  return (folders) =>
    new Promise((resolve, reject) => {
      waiting.push({ folders, resolve, reject });
      // After all promises that are settled by now: what they lead to asks in the same turn.
      if (waiting.length === 1) process.nextTick(() => void lookOnce());
    });
}
