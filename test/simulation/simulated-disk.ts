// The model directory of the simulated world, as version watches and model readers see it.

import { WinnowError } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import type { WorkerDependencies } from "@winnow/worker";
import { MODEL, VersionContent, openSimulated } from "./simulated-models.ts";
import type { CopyFlaw, Flaw, ModelSize, VersionCopy, VersionFiles } from "./simulated-models.ts";

interface Directory {
  readonly revision: number;
  readonly flaw: Flaw | undefined;
  readonly stamp: string;
  /** Its files are being written. */
  readonly isChanging: boolean;
}

/** How a directory is written. */
export interface Writing {
  readonly flaw?: Flaw | undefined;
  /** Something else than it held before. */
  readonly isNew?: boolean;
  /** More is to come. */
  readonly isChanging?: boolean;
}

/** Version directories by number. */
export class SimulatedDisk {
  readonly size: ModelSize;
  /** Every content that ever was, by version. */
  readonly #contents = new Map<number, VersionContent[]>();
  readonly #directories = new Map<number, Directory>();
  #stamps = 0;
  #newest = 0;

  constructor(size: ModelSize) {
    this.size = size;
  }

  /** The highest version number so far; numbers are not used again. */
  get newest(): number {
    return this.#newest;
  }

  /** A version appears, or is written anew. */
  put(version: number, { flaw, isNew = false, isChanging = false }: Writing = {}): void {
    this.#stamps += 1;
    this.#newest = Math.max(this.#newest, version);
    const contents = this.contentsOf(version);
    if (isNew) {
      const revision = contents.length;
      contents.push(new VersionContent({ version, revision }, this.size));
    }
    const revision = contents.length - 1;
    const stamp = `stamp ${this.#stamps}`;
    this.#directories.set(version, { revision, flaw, stamp, isChanging });
  }

  remove(version: number): void {
    this.#directories.delete(version);
  }

  /** Versions that exist and are intact, ascending. */
  get sound(): number[] {
    return this.#numbers((each) => each.flaw === undefined && !each.isChanging);
  }

  /** Versions that nobody mends. */
  get flawed(): number[] {
    return this.#numbers((each) => each.flaw !== undefined && !each.isChanging);
  }

  #numbers(isMeant: (directory: Directory) => boolean): number[] {
    const found = [...this.#directories].filter(([, directory]) => isMeant(directory));
    return found.map(([version]) => version).toSorted((a, b) => a - b);
  }

  has(version: number): boolean {
    return this.#directories.has(version);
  }

  /** All contents that a version has had, even if its directory is gone; the last is the newest. */
  contentsOf(version: number): VersionContent[] {
    const known = this.#contents.get(version);
    if (known !== undefined) return known;
    const contents = [new VersionContent({ version, revision: 0 }, this.size)];
    this.#contents.set(version, contents);
    return contents;
  }

  /** What a version is by now. */
  contentOf(version: number): VersionContent {
    return this.contentsOf(version).at(-1)!;
  }

  /**
   * The disk as a worker's version watch sees it. `isReadable` says whether it can be read now, `copyFlaw`
   * what is wrong with this worker's copy.
   */
  storage(
    isReadable: () => boolean,
    copyFlaw: () => CopyFlaw | undefined,
  ): NonNullable<WorkerDependencies["storage"]> {
    const check = (): void => {
      if (!isReadable()) throw new WinnowError("UNAVAILABLE", "EIO: i/o error");
    };
    return {
      directories: async (directory) => {
        check();
        return directory === "/models" ? [MODEL] : [...this.#directories.keys()].map(String);
      },
      stamp: async (directory) => {
        check();
        const stamp = this.#directories.get(versionOf(directory))?.stamp;
        return stamp === undefined ? undefined : `${stamp} ${copyFlaw() ?? ""}`;
      },
      join: (directory, name) => `${directory}/${name}`,
      realPath: async (name) => {
        check();
        return name;
      },
    };
  }

  /**
   * Opens a version directory as a worker finds it. Files are overwritten in place, so a worker that has
   * opened them reads their present bytes, or the last bytes of a removed file.
   */
  open(directory: string, copy: VersionCopy): ModelVersion {
    const version = versionOf(directory);
    let last = this.#filesOf(version);
    if (last === undefined) throw new WinnowError("NOT_FOUND", `No files in ${directory}`);
    return openSimulated(() => (last = this.#filesOf(version) ?? last!), copy);
  }

  #filesOf(version: number): VersionFiles | undefined {
    const found = this.#directories.get(version);
    if (found === undefined) return undefined;
    return { content: this.contentsOf(version)[found.revision]!, flaw: found.flaw };
  }
}

const versionOf = (directory: string): number => Number(directory.split("/").at(-1));
