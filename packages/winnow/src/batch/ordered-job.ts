// Batches in flight, and lines in the order of the input: the oldest batch is awaited and written, then the next one is
// sent. At most `concurrency` batches are held, however long the oldest takes. Whatever ends the job, all that stands
// before it is written.

import type { Answered } from "./answering.ts";
import { beforeAbort } from "./before-abort.ts";
import type { Batch } from "./instance-batches.ts";
import type { Entry } from "./instances.ts";

/** What a job consists of. */
export interface JobParts {
  readonly batches: AsyncIterator<Batch, void>;
  readonly answer: (instances: readonly string[]) => Promise<readonly Answered[]>;
  /** Batches under way at a time; asked anew, as the first one goes alone until a version is pinned. */
  readonly concurrency: () => number;
  /** Takes whole lines. */
  readonly write: (written: WrittenBatch) => Promise<void>;
  readonly signal: AbortSignal;
}

/** The lines of a batch. */
export interface WrittenBatch {
  readonly text: string;
  readonly lines: number;
  readonly errors: number;
  /** The last one's message. */
  readonly lastError: string | undefined;
  readonly endByte: number;
}

/** How a line of an instance without prediction begins, by which a resumed job counts them. */
export const ERROR_LINE_START = '{"error":';

/** Runs to the end of the input. @throws whatever ended it earlier */
export async function runOrdered({
  batches,
  answer,
  concurrency,
  write,
  signal,
}: JobParts): Promise<void> {
  const underWay: Promise<WrittenBatch>[] = [];
  let isEnded = false;
  let failure: { readonly error: unknown } | undefined;
  for (;;) {
    while (!isEnded && failure === undefined && underWay.length < Math.max(1, concurrency())) {
      try {
        const next = await beforeAbort(batches.next(), signal);
        isEnded = next.done === true;
        if (next.done === true) break;
        const answered = writtenBatch(next.value, answer);
        // It may fail while an older one is awaited; it is awaited, too, when its turn comes.
        answered.catch(() => undefined);
        underWay.push(answered);
      } catch (error) {
        // What was read before is answered and written yet.
        failure = { error };
      }
    }
    const oldest = underWay.shift();
    if (oldest === undefined) break;
    await write(await oldest);
  }
  if (failure !== undefined) throw failure.error;
}

async function writtenBatch(
  { entries, endByte }: Batch,
  answer: JobParts["answer"],
): Promise<WrittenBatch> {
  const instances = entries.flatMap((entry) => (entry.kind === "instance" ? [entry.text] : []));
  const answered = instances.length === 0 ? [] : await answer(instances);
  if (answered.length !== instances.length) throw new RangeError("an instance without its line");
  const next = answered.values();
  const lines = entries.map((entry) => lineOf(entry, next));
  const errors = lines.filter(({ error }) => error !== undefined);
  return {
    text: lines.map(({ text }) => `${text}\n`).join(""),
    lines: lines.length,
    errors: errors.length,
    lastError: errors.at(-1)?.error,
    endByte,
  };
}

interface Line {
  readonly text: string;
  readonly error?: string;
}

function lineOf(entry: Entry, answered: Iterator<Answered>): Line {
  if (entry.kind === "fault") {
    return errorLine("null", { code: "INVALID_ARGUMENT", message: entry.message });
  }
  const outcome = answered.next().value as Answered;
  if (typeof outcome !== "string") return errorLine(entry.text, outcome);
  return { text: `{"instance":${entry.text},"prediction":${outcome}}` };
}

function errorLine(instance: string, { code, message }: Exclude<Answered, string>): Line {
  const told = JSON.stringify({ code, message });
  return { text: `${ERROR_LINE_START}${told},"instance":${instance}}`, error: message };
}
