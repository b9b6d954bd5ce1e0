// A disk that is soon full, where the tests' user may mount one (Linux, root).

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** Bytes of the disk. */
export const SMALL_DISK_BYTES: number = 2 ** 20;

/** Added to the names of tests that need one. */
export const NEEDS_SMALL_DISK = "(needs the right to mount a disk)";

/** A disk in memory. */
export interface SmallDisk {
  readonly folder: string;
  /** Writes a file that leaves no byte. */
  fill(): void;
  /** Removes that file. */
  empty(): void;
  remove(): void;
}

/** Mounts an empty disk of 1 MiB; `undefined` where that is not allowed. */
export function smallDisk(): SmallDisk | undefined {
  const folder = mkdtempSync(path.join(tmpdir(), "winnow-small-disk-"));
  const filler = path.join(folder, "filler");
  const options = ["-t", "tmpfs", "-o", `size=${SMALL_DISK_BYTES}`, "none", folder];
  if (spawnSync("mount", options).status !== 0) {
    rmSync(folder, { recursive: true, force: true });
    return undefined;
  }
  return {
    folder,
    fill: () => {
      try {
        writeFileSync(filler, new Uint8Array(2 * SMALL_DISK_BYTES));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    },
    empty: () => rmSync(filler, { force: true }),
    remove: () => {
      spawnSync("umount", ["--lazy", folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
