// The lines of the input as batches: at most so many instances, and so many bytes, for one request.

import { WinnowError } from "@winnow/core";
import type { InputLine } from "./input-lines.ts";
import { type Entry, entryOf } from "./instances.ts";

/** Lines that are answered together. */
export interface Batch {
  readonly entries: readonly Entry[];
  /** Bytes of the input up to the end of its last line. */
  readonly endByte: number;
}

/** How batches are cut. */
export interface BatchCut {
  /** Instances of a batch, asked anew for each: a limit of the router may turn out to be lower. */
  readonly size: () => number;
  readonly lineBytesMax: number;
  /** Entries at the beginning that have their lines in the output already. */
  readonly skip: number;
}

/** A longer batch is cut before its last instance. A router takes bodies of some MiB. */
const BATCH_CHARACTERS_MAX = 2 ** 20;

/** The batches of the input, in its order. @throws WinnowError FAILED_PRECONDITION where it has fewer entries than are done */
export async function* batchesOf(
  lines: AsyncIterable<readonly InputLine[]>,
  { size, lineBytesMax, skip }: BatchCut,
): AsyncGenerator<Batch, void> {
  let entries: Entry[] = [];
  let characters = 0;
  let skipped = 0;
  let endByte = 0;
  for await (const some of lines) {
    for (const line of some) {
      const entry = entryOf(line, lineBytesMax);
      if (entry === undefined) continue;
      if (skipped < skip) {
        skipped += 1;
        continue;
      }
      const length = entry.kind === "instance" ? entry.text.length : 0;
      if (entries.length > 0 && characters + length > BATCH_CHARACTERS_MAX) {
        yield { entries, endByte };
        [entries, characters] = [[], 0];
      }
      entries.push(entry);
      characters += length;
      ({ endByte } = line);
      if (entries.length < size()) continue;
      yield { entries, endByte };
      [entries, characters] = [[], 0];
    }
  }
  if (entries.length > 0) yield { entries, endByte };
  if (skipped === skip) return;
  const text = `The input has ${skipped} instances, but ${skip} are done: it is not the input of this job`;
  throw new WinnowError("FAILED_PRECONDITION", text);
}
