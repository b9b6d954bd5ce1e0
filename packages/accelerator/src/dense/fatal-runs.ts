// Runs that ended their process, and what follows:
//
//   the first of a model        it is run once more, in the separate process: the kernel may have killed the
//                               process for its memory, or a person by hand
//   the same inputs again       refused for as long as they are remembered
//   other inputs of the model   refused, and so are all runs of the model for a pause that doubles, so that
//                               a client that makes such inputs ends one process per pause
//
// A pure decision: time is an argument.

import { createHash } from "node:crypto";

const PAUSE_MS = 250;
const PAUSE_MS_MAX = 5000;
const FORGET_MS = 600_000;
const INPUTS_MAX = 64;

interface ModelRecord {
  ends: number;
  lastMs: number;
  pausedUntilMs: number;
  /** Number of ends by digest of a run's frame, oldest first. */
  readonly inputs: Map<string, number>;
}

/** What becomes of a run that ended its process. */
export interface FatalVerdict {
  readonly runAgain: boolean;
  /** How often these inputs have ended a process. */
  readonly ends: number;
}

/** Runs that ended processes, by number of the model. */
export class FatalRuns {
  readonly #models = new Map<number, ModelRecord>();

  /** Notes that a run ended its process; `frame` has its inputs. Loading counts as a run without inputs. */
  ended(model: number, frame: Uint8Array, nowMs: number): FatalVerdict {
    const record = this.#recordOf(model, nowMs) ?? newRecord();
    this.#models.set(model, record);
    const digest = digestOf(frame);
    const ends = (record.inputs.get(digest) ?? 0) + 1;
    record.inputs.delete(digest);
    record.inputs.set(digest, ends);
    if (record.inputs.size > INPUTS_MAX) record.inputs.delete(record.inputs.keys().next().value!);
    record.ends += 1;
    record.lastMs = nowMs;
    if (record.ends > 1) {
      const pauseMs = PAUSE_MS * 2 ** Math.min(record.ends - 2, 16);
      record.pausedUntilMs = nowMs + Math.min(pauseMs, PAUSE_MS_MAX);
    }
    return { runAgain: record.ends === 1, ends };
  }

  /** How many processes these inputs have ended, if they must not end another one; otherwise 0. */
  endsOf(model: number, frame: Uint8Array, nowMs: number): number {
    const record = this.#recordOf(model, nowMs);
    if (record === undefined) return 0;
    const ends = record.inputs.get(digestOf(frame)) ?? 0;
    return ends > 1 ? ends : 0;
  }

  /** Ms until the model may run again; 0 if it may. */
  pauseMsOf(model: number, nowMs: number): number {
    const record = this.#recordOf(model, nowMs);
    return record === undefined ? 0 : Math.max(0, record.pausedUntilMs - nowMs);
  }

  /** The model was released. */
  forget(model: number): void {
    this.#models.delete(model);
  }

  #recordOf(model: number, nowMs: number): ModelRecord | undefined {
    const record = this.#models.get(model);
    if (record !== undefined && nowMs - record.lastMs > FORGET_MS) this.#models.delete(model);
    return this.#models.get(model);
  }
}

function newRecord(): ModelRecord {
  return { ends: 0, lastMs: 0, pausedUntilMs: 0, inputs: new Map() };
}

function digestOf(frame: Uint8Array): string {
  return createHash("sha1").update(frame).digest("base64");
}
