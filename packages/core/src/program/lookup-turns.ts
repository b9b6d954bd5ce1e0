// Look-ups of many keys in a vocabulary, which is too large to go along to a thread: a part of the keys in each turn of the
// event loop. A text that was cut into a million words would hold it up for most of a second otherwise.

import { StringColumn } from "../tensor/string-column.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { nextLoopTurn } from "../time/loop-turn.ts";
import type { Signal } from "../time/signal.ts";
import { runHostStep } from "./operations/host-operations.ts";
import { assertTextFits, stringCount, tensorOf, zeros } from "./operations/tensor-memory.ts";
import type { HostStep } from "./program.ts";
import type { VocabularyIndex } from "./vocabulary-index.ts";

/** What a key costs beside the bytes of its text, in bytes. */
const KEY_WORK = 32;
/** Work in one turn: 16,384 short keys, a few ms. */
const TURN_WORK_MAX = 2 ** 19;

/** What a look-up needs of its program and its request. */
interface LookupContext {
  readonly vocabularies: readonly VocabularyIndex[];
  readonly signal: Signal;
}

/**
 * Looks up keys in turns; `undefined` for another step, and for few keys. @throws as `runHostStep`; the signal's reason,
 * between two turns
 */
export function lookedUpInTurns(
  step: HostStep,
  inputs: readonly Tensor[],
  context: LookupContext,
): Promise<readonly Tensor[]> | undefined {
  const [keys, other] = inputs;
  if (step.op !== "LookupTableFindV2" || keys === undefined || other === undefined)
    return undefined;
  const { data } = keys;
  const bytes = data instanceof StringColumn ? data.byteLength : 0;
  const turns = Math.ceil((data.length * KEY_WORK + bytes) / TURN_WORK_MAX);
  if (turns <= 1) return undefined;
  return lookedUp(step, { keys, other, keysPerTurn: Math.ceil(data.length / turns) }, context);
}

async function lookedUp(
  step: HostStep,
  { keys, other, keysPerTurn }: KeysInTurns,
  { vocabularies, signal }: LookupContext,
): Promise<readonly Tensor[]> {
  const { length } = keys.data;
  // As for the whole: the number of values first, then what their texts take.
  const whole = other.dtype === "string" ? undefined : zeros(other.dtype, keys.shape);
  if (whole === undefined) stringCount(keys.shape);
  const texts: StringColumn[] = [];
  let bytes = 0;
  for (let from = 0; from < length; from += keysPerTurn) {
    if (from > 0) await nextLoopTurn();
    signal.throwIfAborted();
    const data = keys.data.slice(from, Math.min(length, from + keysPerTurn));
    const part = tensorOf(keys.dtype, [data.length], data);
    const [{ data: found }] = runHostStep(step, [part, other], vocabularies) as [Tensor];
    if (found instanceof StringColumn) {
      bytes += found.byteLength;
      assertTextFits(bytes);
      texts.push(found);
    } else (whole as Float64Array).set(found as Float64Array, from);
  }
  return [tensorOf(other.dtype, keys.shape, whole ?? StringColumn.joined(texts))];
}

interface KeysInTurns {
  readonly keys: Tensor;
  readonly other: Tensor;
  readonly keysPerTurn: number;
}
