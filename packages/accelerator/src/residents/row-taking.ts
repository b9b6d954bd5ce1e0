// Takes the rows of a load from its source, chunk by chunk: whole rows, exactly as many as were
// announced. Between two chunks the event loop runs, so that pings and aborts are handled.

import { nextLoopTurn } from "@winnow/core";
import type { LoadShape } from "../accelerator.ts";
import { checkChunkShape, checkComplete } from "../queries/top-k-request.ts";
import type { LoadProgress } from "../queries/top-k-request.ts";

/** One load. */
export interface RowSource {
  readonly shape: LoadShape;
  /** Whole rows in order, float32. */
  readonly chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>;
  readonly signal: AbortSignal | undefined;
}

/**
 * Hands every chunk to `take`, which copies it and refuses values that are not finite.
 * @throws WinnowError INVALID_ARGUMENT when the chunks do not add up to the shape; the signal's reason
 */
export async function takeRows(
  { shape, chunks, signal }: RowSource,
  take: (chunk: Float32Array, progress: LoadProgress) => void | Promise<void>,
): Promise<void> {
  const progress = { shape, taken: 0 };
  for await (const chunk of chunks) {
    signal?.throwIfAborted();
    checkChunkShape(progress, chunk);
    await take(chunk, progress);
    progress.taken += chunk.length;
    await nextLoopTurn();
  }
  signal?.throwIfAborted();
  checkComplete(progress);
}
