// Feature crosses (Keras' HashedCrossing): every combination of one value per column, as the bucket
// of a chained hash. Sources: sparse_cross_op.cc (HashCrosser), FingerprintCat64 of
// platform/fingerprint.h.

import { WinnowError } from "../../../errors/errors.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { fingerprint64 } from "../../hashes/farm-hash.ts";
import { booleanAttribute, inputAt, numberAttribute } from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { outputCount, tensorOf } from "../tensor-memory.ts";

/** Feature crosses, by TensorFlow's name. */
export const crossingOperations: HostOperations = { SparseCross: crossDense };

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

/** Crosses dense columns `[batch, features]` of strings or integers; the result is sparse. */
function crossDense(call: HostCall): Tensor[] {
  if (numberAttribute(call, "N", 0) > 0 || !booleanAttribute(call, "hashed_output", true)) {
    const what = "sparse columns or unhashed crosses";
    throw new WinnowError("UNIMPLEMENTED", `${call.op} of ${what} (node ${call.node})`);
  }
  const rows = inputAt(call, 0).shape[0] ?? 0;
  const columns = call.inputs.map((column) => columnOf(column, rows));
  const perRow = columns.reduce((product, { width }) => product * width, 1);
  const count = outputCount([rows, perRow]);
  const buckets = BigInt(numberAttribute(call, "num_buckets", 0));
  const seed = BigInt(call.attributes["hash_key"] as number | string);
  const indices = new BigInt64Array(count * 2);
  const values = new BigInt64Array(count);
  for (let at = 0; at < count; at += 1) {
    const row = Math.floor(at / perRow);
    const hash = crossHash(columns, { row, cross: at % perRow, seed });
    indices[at * 2] = BigInt(row);
    indices[at * 2 + 1] = BigInt(at % perRow);
    values[at] = hash % (buckets > 0n ? buckets : INT64_MAX);
  }
  return [
    tensorOf("int64", [count, 2], indices),
    tensorOf("int64", [count], values),
    tensorOf("int64", [2], BigInt64Array.of(BigInt(rows), BigInt(rows === 0 ? 0 : perRow))),
  ];
}

interface Column {
  readonly width: number;
  /** Unsigned 64 bits: the fingerprint of a string, or an integer itself. */
  readonly hashes: readonly bigint[];
}

function columnOf({ dtype, shape, data }: Tensor, rows: number): Column {
  if (shape.length !== 2 || shape[0] !== rows) {
    throw invalid(`Dense inputs should be matrices of ${rows} rows, got [${shape.join(",")}]`);
  }
  const width = shape[1]!;
  if (dtype === "string") {
    const hashes = Array.from({ length: data.length }, (_, at) => fingerprint64(data.at(at)));
    return { width, hashes };
  }
  if (dtype !== "int64") throw invalid(`Dense inputs should be string or int64, got ${dtype}`);
  return { width, hashes: Array.from(data, wrap) };
}

/** The hash of cross number `cross` of a row; the last column changes fastest. */
function crossHash(
  columns: readonly Column[],
  { row, cross, seed }: { readonly row: number; readonly cross: number; readonly seed: bigint },
): bigint {
  let rest = cross;
  const picks = columns.toReversed().map(({ width, hashes }) => {
    const pick = hashes[row * width + (rest % width)]!;
    rest = Math.floor(rest / width);
    return pick;
  });
  return picks.reduceRight(chained, wrap(seed));
}
