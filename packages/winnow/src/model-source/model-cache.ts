// The cache of a worker for what it reads from object stores. The directory is tried at the start, so that
// one that cannot be written to, or a disk that is too small, is reported before a model needs it.

import { constants } from "node:fs";
import { access, statfs } from "node:fs/promises";
import path from "node:path";
import { type Logger, WinnowError, makeDirectory } from "@winnow/core";
import { CacheCounts, type CacheSettings, cacheBytes } from "@winnow/model";
import type { LoadFlags } from "../model-config/config-flags.ts";

/**
 * The directory and limit from the flags, if there are any. Logs a warning if the disk has less room.
 * @throws WinnowError FAILED_PRECONDITION if the directory cannot be created or written to
 */
export async function modelCache(
  {
    modelCacheDir,
    modelCacheBytes: bytesMax,
  }: Pick<LoadFlags, "modelCacheDir" | "modelCacheBytes">,
  log: Logger,
): Promise<CacheSettings | undefined> {
  if (modelCacheDir === undefined || modelCacheDir === "") return undefined;
  const directory = path.resolve(modelCacheDir);
  const counts = new CacheCounts();
  try {
    await makeDirectory(directory, 0o700);
    await access(directory, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = await statfs(directory);
    const heldBytes = await cacheBytes(directory);
    counts.setHeld(heldBytes);
    const roomBytes = bavail * bsize + heldBytes;
    if (roomBytes < bytesMax) {
      const text = "the disk of the model cache has less room than --model-cache-bytes";
      log.warn(text, { directory, roomBytes, bytesMax });
    }
  } catch (error) {
    const { code = "unknown error" } = error as NodeJS.ErrnoException;
    const text = `Cannot keep models in ${directory}: ${code}; name a directory that can be written to with --model-cache-dir, or leave it out`;
    throw new WinnowError("FAILED_PRECONDITION", text, { cause: error });
  }
  return { directory, bytesMax, counts: counts.buffer };
}
