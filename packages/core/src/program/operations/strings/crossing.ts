// Feature crosses (Keras' HashedCrossing, crossed feature columns): every combination of one value per column, as the bucket
// of a chained hash. Sources: sparse_cross_op.cc (HashCrosser), FingerprintCat64 of
// platform/fingerprint.h.

import { WinnowError } from "../../../errors/errors.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { fingerprint64 } from "../../hashes/farm-hash.ts";
import { booleanAttribute, inputAt, integersAt, numberAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { outputCount, tensorOf } from "../tensor-memory.ts";

/** Feature crosses, by TensorFlow's name. */
export const crossingOperations: HostOperations = { SparseCross: cross };

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
  const columns = columnsOf(call);
  const rows = columns[0]?.length ?? 0;
  if (!columns.every(({ length }) => length === rows)) {
    throw invalid(`Columns have ${columns.map(({ length }) => length).join(", ")} rows`);
  }
  const buckets = BigInt(numberAttribute(call, "num_buckets", 0));
  const seed = wrap(BigInt((call.attributes["hash_key"] ?? 0) as number | string));
  const counts = Array.from({ length: rows }, (_, row) =>
    columns.reduce((product, column) => product * column[row]!.length, 1),
  );
  const count = outputCount([counts.reduce((sum, each) => sum + each, 0), 1]);
  const indices = new BigInt64Array(count * 2);
  const values = new BigInt64Array(count);
  let at = 0;
  for (const [row, crosses] of counts.entries()) {
    const features = columns.map((column) => column[row]!);
    for (let cross = 0; cross < crosses; cross += 1) {
      indices[at * 2] = BigInt(row);
      indices[at * 2 + 1] = BigInt(cross);
      values[at] = crossHash(features, cross, seed) % (buckets > 0n ? buckets : INT64_MAX);
      at += 1;
    }
  }
  const longest = counts.reduce((most, each) => Math.max(most, each), 0);
  return [
    tensorOf("int64", [count, 2], indices),
    tensorOf("int64", [count], values),
    tensorOf("int64", [2], BigInt64Array.of(BigInt(rows), BigInt(longest))),
  ];
}

/** Per row, the features: unsigned 64 bits, the fingerprint of a string or an integer itself. */
type Column = readonly (readonly bigint[])[];

function columnsOf(call: HostCall): readonly Column[] {
  const sparse = numberAttribute(call, "N", 0);
  const columns: Column[] = [];
  for (let at = 0; at < sparse; at += 1) {
    const [rows = 0] = integersAt(call, 2 * sparse + at);
    columns.push(sparseColumn(call, { at, sparse, rows }));
  }
  return [...columns, ...call.inputs.slice(3 * sparse).map(denseColumn)];
}

/** The entries of a sparse column by rows, in their order. */
function sparseColumn(
  call: HostCall,
  { at, sparse, rows }: { readonly at: number; readonly sparse: number; readonly rows: number },
): Column {
  const places = integersAt(call, at);
  const hashes = hashesOf(inputAt(call, sparse + at));
  outputCount([rows]);
  const column: bigint[][] = Array.from({ length: rows }, () => []);
  for (const [entry, hash] of hashes.entries()) {
    const row = column[places[2 * entry]!];
    if (row === undefined)
      throw invalid(`Sparse column ${at} has an entry beyond its ${rows} rows`);
    row.push(hash);
  }
  return column;
}

function denseColumn(column: Tensor): Column {
  const [rows = 0, width = 0] = column.shape;
  if (column.shape.length !== 2) {
    throw invalid(`Dense inputs should be matrices, got [${column.shape.join(",")}]`);
  }
  const hashes = hashesOf(column);
  return Array.from({ length: rows }, (_, row) => hashes.slice(row * width, (row + 1) * width));
}

function hashesOf({ dtype, data }: Tensor): readonly bigint[] {
  if (dtype === "string") {
    return Array.from({ length: data.length }, (_, at) => fingerprint64(data.at(at)));
  }
  if (dtype !== "int64") throw invalid(`Columns should be string or int64, got ${dtype}`);
  return Array.from(data, wrap);
}

/** The hash of cross number `cross` of a row; the last column changes fastest. */
function crossHash(features: Column, cross: number, seed: bigint): bigint {
  let rest = cross;
  const picks = features.toReversed().map((column) => {
    const pick = column[rest % column.length]!;
    rest = Math.floor(rest / column.length);
    return pick;
  });
  return picks.reduceRight(chained, seed);
}
