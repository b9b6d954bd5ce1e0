// What a search is reckoned at, in rows: one per query vector, more where a large k or long vectors
// leave room for fewer of them in a frame. A full frame costs `frameQueriesMax`, whatever fills it.

import type { SignatureProgram, TableSpec } from "@winnow/core";
import type { RouterSettings } from "./router-settings.ts";

const VALUE_BYTES = 4;

/** The bounds of one frame. */
export type FrameLimits = Pick<
  RouterSettings,
  "frameQueriesMax" | "frameCandidatesMax" | "frameBytesMax"
>;

/** What makes a query vector dear. */
export interface SearchShape {
  readonly dim: number;
  readonly k: number;
}

/** Query vectors per frame: bounded by their number, candidates that come back and bytes that go out. */
export function frameQueriesOf({ dim, k }: SearchShape, limits: FrameLimits): number {
  const byCandidates = Math.floor(limits.frameCandidatesMax / k);
  const byBytes = Math.floor(limits.frameBytesMax / (dim * VALUE_BYTES));
  return Math.max(1, Math.min(limits.frameQueriesMax, byCandidates, byBytes));
}

/** Rows that so many query vectors count for; at least one each. */
export function searchCost(queries: number, shape: SearchShape, limits: FrameLimits): number {
  return Math.ceil((queries * limits.frameQueriesMax) / frameQueriesOf(shape, limits));
}

/** Rows that all searches of a signature count for, asked for so many instances. */
export function requestCost(
  asked: {
    readonly signature: SignatureProgram;
    readonly tables: readonly TableSpec[];
    readonly instances: number;
    readonly k: number | undefined;
  },
  limits: FrameLimits,
): number {
  let cost = 0;
  for (const step of asked.signature.steps) {
    if (step.kind !== "topK") continue;
    const { dim } = asked.tables[step.table]!;
    const k = Math.max(1, asked.k ?? step.k);
    cost += searchCost(asked.instances, { dim, k }, limits);
  }
  return cost;
}
