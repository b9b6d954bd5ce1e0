// How far a walk through the files below one folder may go. Links are followed, and one may lead back to where the walk
// has been, or out into the whole disk: so each folder is listed once, the number of entries is bounded, and the
// refusal names the link. This file only decides; the caller reads the file system.

import { WinnowError, excerpt } from "../errors/errors.ts";

/** Files and folders of one walk: enough for as many assets as a version may have, 10 000, and their folders. */
const FOLDER_ENTRIES_MAX = 12_000;
/** Folders within folders: no export has more than a few. */
const FOLDER_DEPTH_MAX = 32;

/** A folder that is to be listed. */
export interface WalkedFolder {
  /** Relative to where the walk began, with `/` between its parts; "" is where it began. */
  readonly name: string;
  readonly depth: number;
  /** The first link on the way here. */
  readonly link: string | undefined;
}

/** What tells two folders apart. */
interface FolderIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** One walk. */
export class FolderWalk {
  readonly #shownAs: string;
  readonly #listed = new Set<string>();
  readonly #waiting: WalkedFolder[] = [{ name: "", depth: 0, link: undefined }];
  #entries = 0;
  /** The first link behind which there was anything. */
  #link: string | undefined;

  /** Messages call the folder in which the walk begins `shownAs`. */
  constructor(shownAs: string) {
    this.#shownAs = shownAs;
  }

  /** The next folder to look at; `undefined` at the end. */
  next(): WalkedFolder | undefined {
    return this.#waiting.pop();
  }

  /** Whether a folder has not been listed yet, by whatever name. */
  isNew({ dev, ino }: FolderIdentity): boolean {
    const identity = `${dev} ${ino}`;
    if (this.#listed.has(identity)) return false;
    this.#listed.add(identity);
    return true;
  }

  /** Counts an entry of a folder, and returns its name. @throws WinnowError RESOURCE_EXHAUSTED */
  entry({ name, link }: WalkedFolder, entry: string): string {
    this.#entries += 1;
    this.#link ??= link;
    if (this.#entries > FOLDER_ENTRIES_MAX) {
      const behind = this.#link;
      const where = behind === undefined ? "" : `, some of them behind the link ${excerpt(behind)}`;
      throw this.#refused(`it holds more than ${FOLDER_ENTRIES_MAX} files and folders${where}`);
    }
    return name === "" ? entry : `${name}/${entry}`;
  }

  /** Has an entry listed later that is a folder, or a link to one. @throws WinnowError RESOURCE_EXHAUSTED */
  descend(from: WalkedFolder, name: string, isLink: boolean): void {
    const depth = from.depth + 1;
    if (depth > FOLDER_DEPTH_MAX) {
      const text = `${excerpt(name)} lies more than ${FOLDER_DEPTH_MAX} folders deep`;
      throw this.#refused(text);
    }
    this.#waiting.push({ name, depth, link: from.link ?? (isLink ? name : undefined) });
  }

  #refused(text: string): WinnowError {
    return new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${this.#shownAs}/: ${text}`);
  }
}
