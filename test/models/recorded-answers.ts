// Models with recorded answers of TensorFlow and PyTorch, wherever they lie: folders with `1/` and `oracle.json`.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { StringColumn, type Dtype, type SignatureProgram, type Tensor } from "@winnow/core";

const root = path.resolve(import.meta.dirname, "../..");

/** Folders searched, relative to the repository. */
export const ANSWER_FOLDERS: readonly string[] = [
  "test/data/savedmodels",
  "test/data/operations",
  "test/data/torch",
  "../shared/savedmodels",
  "../shared/savedmodels-more",
];

/** A value of a recorded tensor: nested lists by row. */
export type Recorded = number | string | boolean | { readonly b64: string } | readonly Recorded[];

/** One request and what TensorFlow answered. */
export interface RecordedCase {
  readonly kind: string;
  readonly signature_name?: string;
  readonly inputs: Readonly<Record<string, Recorded>>;
  readonly outputs?: Readonly<Record<string, Recorded>>;
  readonly error?: { readonly code: string; readonly message: string };
  readonly next_score?: readonly number[];
}

/** A model and its cases. */
export interface RecordedModel {
  readonly name: string;
  readonly directory: string;
  readonly signatureName: string;
  readonly cases: readonly RecordedCase[];
}

interface Oracle {
  readonly signature_name: string;
  readonly cases: readonly RecordedCase[];
}

/** All recorded models of a folder; none where the folder does not exist. */
export function recordedModels(folder: string): RecordedModel[] {
  const at = path.join(root, folder);
  if (!existsSync(at)) return [];
  return readdirSync(at)
    .filter((name) => existsSync(path.join(at, name, "oracle.json")))
    .map((name) => {
      const text = readFileSync(path.join(at, name, "oracle.json"), "utf8");
      const oracle = JSON.parse(text) as Oracle;
      return {
        name,
        directory: path.join(at, name, "1"),
        signatureName: oracle.signature_name,
        cases: oracle.cases,
      };
    });
}

/** The inputs of a case as tensors of the signature's types. */
export function inputTensors(
  signature: SignatureProgram,
  inputs: Readonly<Record<string, Recorded>>,
): Map<string, Tensor> {
  return new Map(
    signature.inputs.map(({ name, dtype, shape }) => {
      const value = inputs[name];
      if (value === undefined) throw new Error(`the case has no input ${name}`);
      const rank = depthOf(value) ?? shape?.length ?? 1;
      return [name, recordedTensor(value, { dtype, rank })];
    }),
  );
}

/** How deep the lists of a value are nested; `undefined`: an empty one tells not. */
function depthOf(value: Recorded | undefined): number | undefined {
  if (!Array.isArray(value)) return value === undefined ? undefined : 0;
  const inner = depthOf((value as readonly Recorded[])[0]);
  return inner === undefined ? undefined : inner + 1;
}

/** A recorded value as a tensor of a known rank. */
export function recordedTensor(
  value: Recorded,
  { dtype, rank }: { readonly dtype: Dtype; readonly rank: number },
): Tensor {
  const shape: number[] = [];
  let flat: readonly Recorded[] = [value];
  for (let axis = 0; axis < rank; axis += 1) {
    shape.push((flat[0] as readonly Recorded[] | undefined)?.length ?? 0);
    flat = flat.flatMap((row) => row as readonly Recorded[]);
  }
  return { dtype, shape, data: arrayOf(dtype, flat) } as Tensor;
}

function arrayOf(dtype: Dtype, values: readonly Recorded[]): Tensor["data"] {
  if (dtype === "string") return StringColumn.fromBytes(values.map(bytesOf));
  if (dtype === "int64") return BigInt64Array.from(values, (value) => BigInt(value as string));
  if (dtype === "int32") return Int32Array.from(values as number[]);
  if (dtype === "bool") return Uint8Array.from(values, Number);
  if (dtype === "float32") return Float32Array.from(values, Number);
  if (dtype === "float64") return Float64Array.from(values, Number);
  throw new Error(`no case has ${dtype} values`);
}

/** The bytes of a recorded string. */
export function bytesOf(value: Recorded): Uint8Array {
  if (typeof value === "string") return Buffer.from(value, "utf8");
  return Buffer.from((value as { readonly b64: string }).b64, "base64");
}
