// The input of a job as chunks of bytes: a file, a pipe or stdin. Its beginning is looked at first, to tell whether a job
// that goes on has the same input.

import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { WinnowError, readFailureText } from "@winnow/core";
import type { InputIdentity } from "./job-state.ts";

/** An opened input. */
export interface JobInput {
  readonly identity: InputIdentity;
  readonly chunks: AsyncIterable<Buffer>;
  /** Device and number of its file; `undefined` for stdin. */
  readonly file: { readonly dev: number; readonly ino: number } | undefined;
}

/** The name of stdin, and of stdout. */
export const STANDARD = "-";
const BEGINNING_BYTES = 64 * 1024;
const CHUNK_BYTES = 1 << 18;

/** Opens an input. @throws WinnowError NOT_FOUND for one that cannot be read */
export async function openInput(name: string, stdin: AsyncIterable<Buffer>): Promise<JobInput> {
  if (name === STANDARD) return { ...(await begun(stdin, undefined)), file: undefined };
  try {
    const handle = await open(name, "r");
    const found = await handle.stat();
    const bytes = found.isFile() ? found.size : undefined;
    return {
      ...(await begun(chunksOf(handle, name), bytes)),
      file: { dev: found.dev, ino: found.ino },
    };
  } catch (cause) {
    throw unreadable(name, cause);
  }
}

function unreadable(name: string, cause: unknown): WinnowError {
  if (cause instanceof WinnowError) return cause;
  return new WinnowError("NOT_FOUND", `Cannot read ${name}: ${readFailureText(cause)}`, { cause });
}

async function* chunksOf(handle: FileHandle, name: string): AsyncGenerator<Buffer, void> {
  try {
    for (;;) {
      const { bytesRead, buffer } = await handle.read({ buffer: Buffer.alloc(CHUNK_BYTES) });
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } catch (cause) {
    throw unreadable(name, cause);
  } finally {
    await handle.close();
  }
}

async function begun(
  chunks: AsyncIterable<Buffer>,
  bytes: number | undefined,
): Promise<Omit<JobInput, "file">> {
  const iterator = chunks[Symbol.asyncIterator]();
  const first: Buffer[] = [];
  let length = 0;
  while (length < BEGINNING_BYTES) {
    const next = await iterator.next();
    if (next.done === true) break;
    first.push(next.value);
    length += next.value.length;
  }
  const beginning = Buffer.concat(first);
  const hash = createHash("sha256").update(beginning.subarray(0, BEGINNING_BYTES));
  return {
    identity: { bytes, digest: hash.digest("hex") },
    chunks: (async function* all(): AsyncGenerator<Buffer, void> {
      yield beginning;
      yield* { [Symbol.asyncIterator]: () => iterator };
    })(),
  };
}
