// Feature crosses (Keras' HashedCrossing, crossed feature columns): every combination of one value per column, as the bucket
// of a chained hash, or joined as text. Sources: sparse_cross_op.cc (HashCrosser), FingerprintCat64 of
// platform/fingerprint.h.

import { WinnowError } from "../../../errors/errors.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { fingerprint64 } from "../../hashes/farm-hash.ts";
import { booleanAttribute, bytesAt, inputAt, integersAt, numberAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { outputCount, stringCount, stringsMade, tensorOf } from "../tensor-memory.ts";

/** Feature crosses, by TensorFlow's name. */
export const crossingOperations: HostOperations = {
  SparseCross: cross,
  SparseCrossV2: crossTexts,
};

const MULTIPLIER = 0xc6a4a7935bd1e995n;
const INT64_MAX = 2n ** 63n - 1n;

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);
const fold = (value: bigint): bigint => value ^ (value >> 47n);

/** FingerprintCat64: combines two fingerprints; their order matters. */
function chained(first: bigint, second: bigint): bigint {
  const mixed = wrap(fold(wrap(second * MULTIPLIER)) * MULTIPLIER);
  const joined = wrap((first ^ MULTIPLIER ^ mixed) * MULTIPLIER);
  return fold(wrap(fold(joined) * MULTIPLIER));
}

/**
 * Crosses columns of strings or integers: sparse ones, each in indices, values and shape, then dense ones
 * `[batch, features]`. The result is sparse. @throws WinnowError UNIMPLEMENTED for crosses that are not hashed
 */
function cross(call: HostCall): Tensor[] {
  if (!booleanAttribute(call, "hashed_output", true)) {
    throw new WinnowError("UNIMPLEMENTED", `${call.op} of unhashed crosses (node ${call.node})`);
  }
  const columns = columnsOf(call, call.inputs.length, hashesOf);
  const buckets = BigInt(numberAttribute(call, "num_buckets", 0));
  const seed = wrap(BigInt((call.attributes["hash_key"] ?? 0) as number | string));
  const { count, places, shape } = crossesOf(columns, outputCount);
  const values = new BigInt64Array(count);
  let at = 0;
  for (const picks of crossesIn(columns)) {
    const hash = picks.reduceRight(chained, seed);
    values[at] = hash % (buckets > 0n ? buckets : INT64_MAX);
    at += 1;
  }
  return [places, tensorOf("int64", [count], values), shape];
}

/** The same as texts, joined by the last input (Keras' CategoryCrossing, `tf.sparse.cross`). */
function crossTexts(call: HostCall): Tensor[] {
  const last = call.inputs.length - 1;
  const separator = bytesAt(call, last);
  const columns = columnsOf(call, last, textsOf);
  const { count, places, shape } = crossesOf(columns, stringCount);
  const crosses = crossesIn(columns);
  const texts = stringsMade([count], () => {
    const picks = crosses.next().value as readonly Uint8Array[];
    const parts = picks.toReversed().flatMap((text, at) => (at === 0 ? [text] : [separator, text]));
    return Buffer.concat(parts);
  });
  return [places, texts, shape];
}

/** How many crosses there are, the place of each `[row, number]`, and their dense shape. */
function crossesOf(
  columns: readonly Column<unknown>[],
  countOf: (shape: readonly number[]) => number,
): {
  readonly count: number;
  readonly places: Tensor;
  readonly shape: Tensor;
} {
  const rows = columns[0]?.length ?? 0;
  if (!columns.every(({ length }) => length === rows)) {
    throw invalid(`Columns have ${columns.map(({ length }) => length).join(", ")} rows`);
  }
  const counts = Array.from({ length: rows }, (_, row) => crossesOfRow(columns, row));
  const count = countOf([counts.reduce((sum, each) => sum + each, 0), 1]);
  const indices = new BigInt64Array(count * 2);
  let at = 0;
  for (const [row, crosses] of counts.entries()) {
    for (let cross = 0; cross < crosses; cross += 1) {
      indices[at * 2] = BigInt(row);
      indices[at * 2 + 1] = BigInt(cross);
      at += 1;
    }
  }
  const longest = counts.reduce((most, each) => Math.max(most, each), 0);
  return {
    count,
    places: tensorOf("int64", [count, 2], indices),
    shape: tensorOf("int64", [2], BigInt64Array.of(BigInt(rows), BigInt(longest))),
  };
}

function crossesOfRow(columns: readonly Column<unknown>[], row: number): number {
  return columns.reduce((product, column) => product * column[row]!.length, 1);
}

/** Every cross as one feature of each column, of the last one first; the last column changes fastest. */
function* crossesIn<Feature>(columns: readonly Column<Feature>[]): Generator<readonly Feature[]> {
  const rows = columns[0]?.length ?? 0;
  const backwards = columns.toReversed();
  for (let row = 0; row < rows; row += 1) {
    const crosses = crossesOfRow(columns, row);
    for (let cross = 0; cross < crosses; cross += 1) {
      let rest = cross;
      yield backwards.map((column) => {
        const features = column[row]!;
        const pick = features[rest % features.length]!;
        rest = Math.floor(rest / features.length);
        return pick;
      });
    }
  }
}

/** Per row, the features: of a hashed cross unsigned 64 bits, the fingerprint of a string or an integer itself. */
type Column<Feature> = readonly (readonly Feature[])[];

/** What a column's tensor holds, one feature for each value. */
type Reader<Feature> = (tensor: Tensor) => readonly Feature[];

function columnsOf<Feature>(
  call: HostCall,
  end: number,
  read: Reader<Feature>,
): readonly Column<Feature>[] {
  const sparse = numberAttribute(call, "N", 0);
  const columns: Column<Feature>[] = [];
  for (let at = 0; at < sparse; at += 1) {
    const places = integersAt(call, at);
    const [rows = 0] = integersAt(call, 2 * sparse + at);
    columns.push(sparseColumn(read(inputAt(call, sparse + at)), { at, places, rows }));
  }
  const dense = call.inputs.slice(3 * sparse, end);
  return [...columns, ...dense.map((column) => denseColumn(column, read(column)))];
}

/** The entries of a sparse column by rows, in their order. */
function sparseColumn<Feature>(
  features: readonly Feature[],
  {
    at,
    places,
    rows,
  }: { readonly at: number; readonly places: readonly number[]; readonly rows: number },
): Column<Feature> {
  outputCount([rows]);
  const column: Feature[][] = Array.from({ length: rows }, () => []);
  for (const [entry, feature] of features.entries()) {
    const row = column[places[2 * entry]!];
    if (row === undefined)
      throw invalid(`Sparse column ${at} has an entry beyond its ${rows} rows`);
    row.push(feature);
  }
  return column;
}

function denseColumn<Feature>(column: Tensor, features: readonly Feature[]): Column<Feature> {
  const [rows = 0, width = 0] = column.shape;
  if (column.shape.length !== 2) {
    throw invalid(`Dense inputs should be matrices, got [${column.shape.join(",")}]`);
  }
  return Array.from({ length: rows }, (_, row) => features.slice(row * width, (row + 1) * width));
}

function hashesOf({ dtype, data }: Tensor): readonly bigint[] {
  if (dtype === "string") {
    return Array.from({ length: data.length }, (_, at) => fingerprint64(data.at(at)));
  }
  if (dtype !== "int64") throw invalid(`Columns should be string or int64, got ${dtype}`);
  return Array.from(data, wrap);
}

function textsOf({ dtype, data }: Tensor): readonly Uint8Array[] {
  if (dtype === "string") return Array.from({ length: data.length }, (_, at) => data.at(at));
  if (dtype !== "int64") throw invalid(`Columns should be string or int64, got ${dtype}`);
  return Array.from(data, (value) => Buffer.from(String(value)));
}
