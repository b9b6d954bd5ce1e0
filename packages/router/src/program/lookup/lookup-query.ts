// Keys → embedding rows, over the workers that hold the keys' partitions; or which keys they know. Keys go out grouped
// by partition, each distinct key once, in slices of bounded size; rows come back in the keys' order.

import type { KeyedTable, Signal, Tensor, TraceSpan } from "@winnow/core";
import { tensor, WinnowError } from "@winnow/core";
import type { WorkerAnswer, WorkerAsk } from "@winnow/cluster";
import type { KeyGroups } from "./key-groups.ts";
import { groupKeys, takeKeys } from "./key-groups.ts";
import { runBounded } from "../bounded-run.ts";
import type { RequestScope } from "../../scatter/scatter-question.ts";
import type { TableQueryParts } from "../../scatter/table-query.ts";
import { queryTable } from "../../scatter/table-query.ts";
import type { RouterSettings } from "../../router-settings.ts";
import { rowsOfBytes } from "../../admission/search-cost.ts";

/** A lookup in one keyed table. */
export interface Lookup {
  /** Position in the program's tables. */
  readonly tableNumber: number;
  readonly table: KeyedTable;
  /** string, int64 or int32, of any shape. */
  readonly keys: Tensor;
  readonly signal: Signal;
  /** The span of the step; `undefined` where nothing is recorded. */
  readonly span?: TraceSpan | undefined;
}

/** Up to this many partitions are asked of the least busy replicas; more follow the table's plan. */
const FEW_PARTITIONS = 4;
const VALUE_BYTES = 4;
const KEY_BYTES_OVERHEAD = 8;

/** Rows of all keys, float32 `[...keys, dim]`. @throws WinnowError as `queryTable` */
export async function queryLookup(
  parts: TableQueryParts,
  question: Lookup,
  scope: RequestScope,
): Promise<Tensor> {
  const { table, keys } = question;
  if (table.keys.kind === "row") checkRows(table, keys);
  const groups = groupKeys(table, keys);
  const rows = new Float32Array(groups.distinct.data.length * table.dim);
  await askSlices(parts, scope, {
    ...question,
    groups,
    askFor: (of) => ({ kind: "lookup", keys: takeKeys(groups, of) }),
    faultOf: (given, of) => faultOf(given, of.length * table.dim),
    take: ({ vectors }, of) => placeRows(rows, table.dim, { vectors, positions: of }),
  });
  const shape = [...keys.shape, table.dim];
  return tensor("float32", shape, spread(rows, groups.positions, table.dim));
}

/**
 * For each key 1, or 0 where the vocabulary of the table lacks it; `undefined` where a worker does not tell, as those
 * of older releases do not. @throws WinnowError as `queryTable`
 */
export async function queryKnown(
  parts: TableQueryParts,
  question: Lookup,
  scope: RequestScope,
): Promise<Uint8Array | undefined> {
  const groups = groupKeys(question.table, question.keys);
  const known = new Uint8Array(groups.distinct.data.length);
  let isTold = true;
  try {
    await askSlices(parts, scope, {
      ...question,
      groups,
      askFor: (of) => ({ kind: "lookup", keys: takeKeys(groups, of), knownOnly: true }),
      faultOf: (given, of) => {
        if (given.kind !== "lookup") return `a lookup was answered with ${given.kind}`;
        const { length } = given.known ?? of;
        return length === of.length ? undefined : `${length} keys instead of ${of.length}`;
      },
      take: ({ known: told }, of) => {
        isTold &&= told !== undefined;
        for (const [index, position] of of.entries()) known[position] = told?.[index] ?? 0;
      },
    });
  } catch (error) {
    // What looks rows up refuses keys that a table without a row for unknown ones lacks.
    if (!(error instanceof WinnowError) || error.code !== "INVALID_ARGUMENT") throw error;
    return undefined;
  }
  return isTold ? Uint8Array.from(groups.positions, (position) => known[position]!) : undefined;
}

type LookupAnswer = Extract<WorkerAnswer, { kind: "lookup" }>;

/** What is asked of each worker, and where its answer goes; `of`: positions of distinct keys. */
interface SliceAsk extends Lookup {
  readonly groups: KeyGroups;
  readonly askFor: (of: readonly number[]) => WorkerAsk;
  readonly faultOf: (answer: WorkerAnswer, of: readonly number[]) => string | undefined;
  readonly take: (answer: LookupAnswer, of: readonly number[]) => void;
}

async function askSlices(
  parts: TableQueryParts,
  scope: RequestScope,
  question: SliceAsk,
): Promise<void> {
  const { askFor, take } = question;
  const { settings, limiter } = parts;
  const slices = cutSlices(question.groups, question.table, settings);
  await runBounded(slices, settings.slicesAtOnce, async ({ byPartition, bytes, idBytes }) => {
    const partitions = [...byPartition.keys()];
    const keysOf = (asked: readonly number[]): readonly number[] =>
      ([] as number[]).concat(...asked.map((partition) => byPartition.get(partition) ?? []));
    const cost = Math.floor(rowsOfBytes(bytes, settings));
    const entrant = { rows: cost, dueMs: scope.dueMs };
    // Only keys so long that they would delay others pass through the limiter.
    const isLong = cost > limiter.smallRowsMax;
    const leave = isLong ? await limiter.enter(entrant, question.signal) : undefined;
    try {
      const answer = await queryTable(
        parts,
        {
          tableNumber: question.tableNumber,
          partitions,
          planned: partitions.length > FEW_PARTITIONS,
          idBytes,
          askFor: (asked) => askFor(keysOf(asked)),
          faultOf: (given, asked) => question.faultOf(given, keysOf(asked)),
          countsCoverage: false,
          allowPartial: false,
          signal: question.signal,
          span: question.span,
        },
        scope,
      );
      for (const partial of answer.partials) {
        if (partial.answer.kind !== "lookup")
          throw new RangeError("an answer to a lookup without rows");
        take(partial.answer, keysOf(partial.partitions));
      }
    } finally {
      leave?.();
    }
  });
}

/** Refuses rows outside the table, in TensorFlow's words (ResourceGather on the CPU). */
function checkRows(table: KeyedTable, keys: Tensor): void {
  if (keys.dtype !== "int64" && keys.dtype !== "int32") return;
  for (const [index, row] of keys.data.entries()) {
    if (row >= 0 && row < table.rows) continue;
    const position = keys.shape.length === 0 ? "" : `[${positionText(index, keys.shape)}]`;
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `indices${position} = ${row} is not in [0, ${table.rows})`,
    );
  }
}

/** The position of a flat index in a shape, as text: `2,1`. */
function positionText(index: number, shape: readonly number[]): string {
  let rest = index;
  const axes = shape.toReversed().map((size) => {
    const position = rest % size;
    rest = Math.floor(rest / size);
    return position;
  });
  return axes.toReversed().join(",");
}

/** Some keys of a look-up, which travel together. */
interface KeySlice {
  /** Positions of the keys, by partition. */
  readonly byPartition: Map<number, number[]>;
  /** Bytes of all keys. */
  bytes: number;
  /** Bytes of the longest key. */
  idBytes: number;
}

/** Cuts the keys so that neither the question nor the answer of a slice exceeds the limit. */
function cutSlices(
  groups: KeyGroups,
  table: KeyedTable,
  { sliceBytesMax, sliceKeysMax }: RouterSettings,
): KeySlice[] {
  const slices: KeySlice[] = [];
  let bytes = Number.POSITIVE_INFINITY;
  let keys = 0;
  const partitions = [...groups.byPartition.keys()].toSorted((a, b) => a - b);
  for (const partition of partitions) {
    for (const position of groups.byPartition.get(partition)!) {
      const ofKey = keyBytes(groups, position);
      const cost = ofKey + table.dim * VALUE_BYTES;
      if (bytes + cost > sliceBytesMax || keys === sliceKeysMax) {
        slices.push({ byPartition: new Map(), bytes: 0, idBytes: 0 });
        bytes = 0;
        keys = 0;
      }
      bytes += cost;
      keys += 1;
      const slice = slices.at(-1)!;
      slice.bytes += ofKey;
      slice.idBytes = Math.max(slice.idBytes, ofKey);
      const group = slice.byPartition.get(partition);
      if (group === undefined) slice.byPartition.set(partition, [position]);
      else group.push(position);
    }
  }
  return slices;
}

function keyBytes({ distinct }: KeyGroups, position: number): number {
  if (distinct.dtype === "int64") return KEY_BYTES_OVERHEAD;
  return KEY_BYTES_OVERHEAD + distinct.data.at(position).length;
}

function faultOf(answer: WorkerAnswer, values: number): string | undefined {
  if (answer.kind !== "lookup") return `a lookup was answered with ${answer.kind}`;
  if (answer.vectors.length === values) return undefined;
  return `${answer.vectors.length} values instead of ${values}`;
}

/** Puts one worker's rows at the positions of their distinct keys. */
function placeRows(
  rows: Float32Array,
  dim: number,
  from: {
    readonly vectors: Float32Array;
    readonly positions: readonly number[];
  },
): void {
  for (let index = 0; index < from.positions.length; index += 1) {
    const vector = from.vectors.subarray(index * dim, (index + 1) * dim);
    rows.set(vector, from.positions[index]! * dim);
  }
}

/** Expands the rows of distinct keys to a row for every key. */
function spread(rows: Float32Array, positions: Uint32Array, dim: number): Float32Array {
  // As many distinct keys as keys: each is the first of its kind, in the keys' order.
  if (rows.length === positions.length * dim) return rows;
  const whole = new Float32Array(positions.length * dim);
  for (let index = 0; index < positions.length; index += 1) {
    const from = positions[index]! * dim;
    whole.set(rows.subarray(from, from + dim), index * dim);
  }
  return whole;
}
