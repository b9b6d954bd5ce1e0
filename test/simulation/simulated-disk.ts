// The model directory of the simulated world, as version watches and model readers see it.

import { WinnowError } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import type { WorkerDependencies } from "@winnow/worker";
import { MODEL, SimulatedVersion, VersionContent } from "./simulated-models.ts";
import type { Flaw, ModelSize } from "./simulated-models.ts";

interface Directory {
  readonly flaw: Flaw | undefined;
  readonly stamp: string;
}

/** Version directories by number. */
export class SimulatedDisk {
  readonly size: ModelSize;
  readonly #contents = new Map<number, VersionContent>();
  readonly #directories = new Map<number, Directory>();
  #stamps = 0;

  constructor(size: ModelSize) {
    this.size = size;
  }

  /** A version appears, or is written anew. */
  put(version: number, flaw?: Flaw): void {
    this.#stamps += 1;
    this.#directories.set(version, { flaw, stamp: `stamp ${this.#stamps}` });
  }

  remove(version: number): void {
    this.#directories.delete(version);
  }

  /** Versions that are there and sound, ascending. */
  get sound(): number[] {
    const sound = [...this.#directories].filter(([, { flaw }]) => flaw === undefined);
    return sound.map(([version]) => version).toSorted((a, b) => a - b);
  }

  get flawed(): number[] {
    const sound = this.sound;
    return [...this.#directories.keys()].filter((version) => !sound.includes(version));
  }

  has(version: number): boolean {
    return this.#directories.has(version);
  }

  /** What a version is, whether or not its directory is there. */
  contentOf(version: number): VersionContent {
    const known = this.#contents.get(version);
    if (known !== undefined) return known;
    const content = new VersionContent(version, this.size);
    this.#contents.set(version, content);
    return content;
  }

  /** The disk as a worker's version watch sees it; `isReadable` says whether it can be read now. */
  storage(isReadable: () => boolean): NonNullable<WorkerDependencies["storage"]> {
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
        return this.#directories.get(versionOf(directory))?.stamp;
      },
      join: (directory, name) => `${directory}/${name}`,
    };
  }

  /** Opens a version directory; `misread`: what is read now is not what was written. */
  open(directory: string, misread: () => boolean): ModelVersion {
    const version = versionOf(directory);
    const found = this.#directories.get(version);
    if (found === undefined) throw new WinnowError("NOT_FOUND", `No files in ${directory}`);
    return new SimulatedVersion(this.contentOf(version), found.flaw, misread);
  }
}

const versionOf = (directory: string): number => Number(directory.split("/").at(-1));
