// Folders looked into in one step of Node's thread pool, for what looks again and again. Node's own calls take a step,
// and a wake-up of the event loop, for each opening, reading and closing of a folder and for each file.

import { loadNativeAddon } from "./cpu/native-addon.ts";
import type { NativeFolder } from "./cpu/native-addon.ts";

/** One name in a folder; links are followed. */
export interface FolderEntry {
  readonly name: string;
  readonly kind: "file" | "folder" | "other";
  /** As `stat` gives them; 0 in a look without facts. */
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
}

/** A folder to look into. Without facts, files are not looked at. */
export interface AskedFolder {
  readonly folder: string;
  readonly withFacts: boolean;
}

/** The entries of each folder; `undefined` where this look cannot tell, and Node's own calls must. */
export type LookIntoFolders = (
  folders: readonly AskedFolder[],
) => Promise<readonly (readonly FolderEntry[] | undefined)[]>;

const KINDS = ["other", "file", "folder"] as const;
const FACTS_OF_ENTRY = 4;

/**
 * Looks into folders of at most `entriesMax` entries with names in ASCII, without waiting on the calling thread. It
 * never reads much more of a folder. `undefined` without the native addon.
 */
export function createFolderLook(entriesMax: number): LookIntoFolders | undefined {
  const { addon } = loadNativeAddon();
  if (addon === undefined) return undefined;
  return async (folders) => {
    const found = await addon.lookIntoFolders(
      folders.map(({ folder }) => folder),
      Uint8Array.from(folders, ({ withFacts }) => Number(withFacts)),
      entriesMax,
    );
    return found.map((each) => each && entriesOf(each));
  };
}

function entriesOf({ names, facts }: NativeFolder): readonly FolderEntry[] {
  if (facts.length === 0) return [];
  return names.split("/").map((name, entry) => {
    const at = entry * FACTS_OF_ENTRY;
    return {
      name,
      kind: KINDS[facts[at]!] ?? "other",
      size: facts[at + 1]!,
      mtimeMs: facts[at + 2]!,
      ctimeMs: facts[at + 3]!,
    };
  });
}
