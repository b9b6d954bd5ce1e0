// Host steps that map each value of one input by itself, in its place: ids gathered by row numbers, casts, sums with one
// number. Such a step may read a ragged value, because what it makes of padding is padding again; and a chain of them
// says which id each row has.

import type { Tensor } from "../tensor/tensor.ts";
import type { DenseRanking, DenseStep, HostStep, SignatureProgram, ValueId } from "./program.ts";
import { runHostStep } from "./operations/host-operations.ts";
import type { VocabularyIndex } from "./vocabulary-index.ts";

/** Sums and differences of two operands. */
const SUMS: ReadonlySet<string> = new Set(["Add", "AddV2", "Sub"]);

/** The position of the input whose values a step maps one by one; `undefined` for a step that does something else. */
export function mappedInputOf(
  { op, attributes }: HostStep,
  inputs: readonly Tensor[],
): number | undefined {
  const [first, second] = inputs.map(({ shape }) => shape.length);
  if (op === "Cast" || op === "LookupTableFindV2") return 0;
  if (op === "Gather" || op === "GatherV2") {
    return first === 1 && (attributes["batch_dims"] ?? 0) === 0 ? 1 : undefined;
  }
  if (!SUMS.has(op) || (first !== 0 && second !== 0)) return undefined;
  return second === 0 ? 0 : 1;
}

/** What a signature answers of the items that it finds, by their rows. */
export interface ItemIds {
  readonly dtype: "string" | "int32" | "int64";
  /** Ids of the rows from `firstRow` up to `endRow`. */
  of(firstRow: number, endRow: number, vocabularies: readonly VocabularyIndex[]): Tensor;
}

/** A value that holds row numbers `[queries, k]`. */
interface RowsValue {
  readonly value: ValueId;
  readonly dtype: Tensor["dtype"];
}

const idsOfRankings = new WeakMap<DenseRanking, { readonly ids: ItemIds | undefined }>();

/** The ids of what a dense step ranks, one object for each ranking; `undefined` where the signature answers none. */
export function rankedIdsOf(
  signature: SignatureProgram,
  step: DenseStep,
  ranking: DenseRanking,
): ItemIds | undefined {
  const known = idsOfRankings.get(ranking);
  if (known !== undefined) return known.ids;
  const rows = step.outputs.find(({ name }) => name === ranking.rows);
  const ids = rows && itemIdsOf(signature, rows);
  idsOfRankings.set(ranking, { ids });
  return ids;
}

/**
 * The ids that a signature answers for row numbers: its first output that host steps make of them item by item, or else
 * the row numbers themselves. `undefined` where it answers neither.
 */
function itemIdsOf(
  { steps, outputs, constants }: SignatureProgram,
  rows: RowsValue,
): ItemIds | undefined {
  const known = new Map(constants.map(({ value, tensor }) => [value, tensor]));
  const chains = new Map<ValueId, readonly MappedStep[]>([[rows.value, []]]);
  for (const step of steps) {
    if (step.kind !== "host" || step.outputs.length !== 1 || step.when !== undefined) continue;
    const position = step.inputs.findIndex((value) => chains.has(value));
    const before = chains.get(step.inputs[position] ?? -1);
    if (before === undefined) continue;
    const operands = step.inputs.flatMap((value, at) =>
      at === position ? PLACE : (known.get(value) ?? []),
    );
    const isMapped = operands.length === step.inputs.length;
    if (!isMapped || mappedInputOf(step, operands) !== position) continue;
    chains.set(step.outputs[0]!, [...before, { step, operands, position }]);
  }
  const answered = outputs.flatMap(({ value, dtype }) => {
    const chain = chains.get(value);
    const isId = dtype === "string" || dtype === "int32" || dtype === "int64";
    return chain !== undefined && isId ? [{ chain, dtype }] : [];
  });
  const found = answered.find(({ chain }) => chain.length > 0) ?? answered[0];
  return (
    found && {
      dtype: found.dtype,
      of: (firstRow, endRow, vocabularies) => {
        const numbers = rowNumbers(rows.dtype, firstRow, endRow);
        return found.chain.reduce((values, each) => mapped(each, values, vocabularies), numbers);
      },
    }
  );
}

interface MappedStep {
  readonly step: HostStep;
  /** What it reads, with something in the place of what it maps. */
  readonly operands: readonly Tensor[];
  readonly position: number;
}

/** Stands for row numbers of two items. */
const PLACE: Tensor = { dtype: "int32", shape: [1, 2], data: new Int32Array(2) };

function mapped(
  { step, operands, position }: MappedStep,
  values: Tensor,
  vocabularies: readonly VocabularyIndex[],
): Tensor {
  return runHostStep(step, operands.with(position, values), vocabularies)[0]!;
}

function rowNumbers(dtype: Tensor["dtype"], firstRow: number, endRow: number): Tensor {
  const length = endRow - firstRow;
  const data = Int32Array.from({ length }, (_, at) => firstRow + at);
  if (dtype !== "int64") return { dtype: "int32", shape: [length], data };
  return { dtype, shape: [length], data: BigInt64Array.from(data, BigInt) };
}
