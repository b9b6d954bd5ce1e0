// The contract between the interpreter and the executors of steps: inputs as the signature declares
// them, rows and lists of the agreed shape. A fault of the client is INVALID_ARGUMENT with
// TensorFlow's message; a violation by an executor is INTERNAL.

import type { Filter } from "../attributes/filter.ts";
import type { Dtype } from "../tensor/dtype.ts";
import { WinnowError, excerpt } from "../errors/errors.ts";
import type { Tensor, TensorSpec } from "../tensor/tensor.ts";
import type {
  DenseStep,
  SignatureProgram,
  SignatureTensor,
  TableSpec,
  TopKStep,
  ValueId,
} from "./program.ts";
import { invalid } from "./node-error.ts";

/**
 * The answer to a TopK step; outputs that the step does not use may be `undefined`. Lists have `k`
 * columns, or those of the longest list where exclusions or lost partitions leave fewer than `k`.
 */
export interface TopKAnswer {
  /** float32 `[queries, columns]`. */
  readonly scores: Tensor | undefined;
  /** int32 `[queries, columns]`. */
  readonly rows: Tensor | undefined;
  /** `[queries, columns]` of the table's id dtype. */
  readonly ids: Tensor | undefined;
  /** Candidates of each query, where some query has fewer than `k`. */
  readonly counts?: Uint32Array | undefined;
  /** string `[queries, columns]`: attributes of the items as JSON, where a request wants some. */
  readonly attributes?: Tensor | undefined;
}

/** The question of a TopK step. */
export interface TopKQuestion {
  /** float32 `[queries, dim]`. */
  readonly query: Tensor;
  /** The request's `k` or the step's own: at most the table's rows. */
  readonly k: number;
  /**
   * The only rows that may be found, by the table's `masks`: one filter for all queries, or one for each.
   * Absent: all rows. Requests may leave out more.
   */
  readonly admits?: readonly Filter[] | undefined;
  /**
   * Which queries of the request these are, where they are not all: what the request brings for each query goes
   * by it. `admits` goes by the queries of this question.
   */
  readonly chosen?: readonly number[] | undefined;
}

/** Checks a request's inputs against the signature. @throws WinnowError INVALID_ARGUMENT */
export function checkInputs(
  signature: SignatureProgram,
  inputs: ReadonlyMap<string, Tensor>,
): void {
  const isOfAnyShape = signature.isElementwise === true && areOfOneShape(inputs);
  for (const input of signature.inputs) {
    const tensor = inputs.get(input.name);
    if (tensor === undefined) throw invalid(`Missing input "${input.name}"; ${wanted(signature)}`);
    checkInputType(input, tensor);
    if (!isOfAnyShape) checkInputShape(input, tensor.shape);
  }
  if (inputs.size === signature.inputs.length) return;
  const known = new Set(signature.inputs.map(({ name }) => name));
  const stranger = [...inputs.keys()].find((name) => !known.has(name)) ?? "";
  throw invalid(`Unknown input "${excerpt(stranger)}"; ${wanted(signature)}`);
}

/** Of several shapes the values might be of the product of their sizes. */
function areOfOneShape(inputs: ReadonlyMap<string, Tensor>): boolean {
  return new Set(Array.from(inputs.values(), ({ shape }) => shape.join())).size === 1;
}

function wanted(signature: SignatureProgram): string {
  const names = signature.inputs.map(({ name }) => `"${name}"`).join(", ");
  return `signature "${signature.name}" needs ${names === "" ? "none" : names}`;
}

function checkInputType(input: SignatureTensor, tensor: Tensor): void {
  if (tensor.dtype === input.dtype) return;
  throw invalid(`Input "${input.name}" must be ${input.dtype}, not ${tensor.dtype}`);
}

/** Checks the shape of an input against the signature's. @throws WinnowError INVALID_ARGUMENT */
export function checkInputShape(input: SignatureTensor, shape: readonly number[]): void {
  if (isCompatible(input, shape)) return;
  const declared = (input.shape ?? []).map((size) => (size < 0 ? "?" : size)).join(",");
  const text = `Input "${input.name}" must have shape [${declared}], not [${shape.join(",")}]`;
  throw invalid(`${text}${nestingAdvice(input, shape)}`);
}

/** Whether all sizes but the first are 1. */
const isOneEach = (sizes: readonly number[]): boolean => sizes.slice(1).every((size) => size === 1);

/** Whether lists of one value each are too many or too few: clients of graphs that take both send either. */
function nestingAdvice({ shape: declared = [] }: TensorSpec, shape: readonly number[]): string {
  if (declared.length === 2 && shape.length === 1 && isOneEach(declared)) {
    return ": each value stands in a list of its own, [[1],[2]] instead of [1,2]";
  }
  if (declared.length === 1 && shape.length === 2 && isOneEach(shape)) {
    return ": each value stands in no list of its own, [1,2] instead of [[1],[2]]";
  }
  return "";
}

function isCompatible(spec: TensorSpec, shape: readonly number[]): boolean {
  if (spec.shape === undefined) return true;
  if (spec.shape.length !== shape.length) return false;
  return spec.shape.every((size, axis) => size < 0 || size === shape[axis]);
}

/** The question of a TopK step, `k` capped or refused. @throws WinnowError INVALID_ARGUMENT */
export function questionOf(
  step: TopKStep,
  table: TableSpec,
  { query, k }: TopKQuestion,
): TopKQuestion {
  const dim = table.dim * (step.vectors ?? 1);
  if (query.dtype !== "float32" || query.shape.length !== 2 || query.shape[1] !== dim) {
    const given = `${query.dtype} [${query.shape.join(",")}]`;
    throw invalid(
      `Matrix size-incompatible: In[0]: ${given}, In[1]: float32 [${dim},${table.rows}]`,
    );
  }
  if (!Number.isSafeInteger(k) || k < 0) throw invalid(`Need k >= 0, got ${k}`);
  if (k <= table.rows) return { query, k };
  if (step.capped) return { query, k: table.rows };
  throw invalid(`input must have at least k columns. Had ${table.rows}, needed ${k}`);
}

/** Checks the rows that a lookup gave. @throws WinnowError INTERNAL */
export function checkLookupOutput(table: TableSpec, keys: Tensor, rows: Tensor): void {
  expectTensor(`rows of table ${table.name}`, rows, {
    dtype: "float32",
    shape: [...keys.shape, table.dim],
  });
}

/** The outputs of a dense step by value. @throws WinnowError INTERNAL */
export function checkDenseOutputs(
  step: DenseStep,
  outputs: ReadonlyMap<string, Tensor>,
): readonly (readonly [ValueId, Tensor])[] {
  return step.outputs.map(({ name, value, dtype }) => {
    const tensor = outputs.get(name);
    if (tensor?.dtype !== dtype) {
      throw broken(`output "${name}" of dense model ${step.model}`, dtype, tensor);
    }
    return [value, tensor] as const;
  });
}

/** The outputs of a TopK step by value, ragged where lists differ. @throws WinnowError INTERNAL */
export function checkTopKAnswer(
  step: TopKStep,
  { query, k }: TopKQuestion,
  answer: TopKAnswer,
): readonly (readonly [ValueId, Tensor])[] {
  const queries = query.shape[0]!;
  const { counts } = answer;
  const columns = counts?.length === queries ? longest(counts, k) : k;
  const rowLengths = counts?.every((count) => count === columns) === false ? counts : undefined;
  const shape = [queries, columns];
  const outputs: (readonly [ValueId, Tensor])[] = [];
  const add = (value: ValueId | undefined, name: "scores" | "rows" | "ids", dtype: Dtype): void => {
    if (value === undefined) return;
    const lists = expectTensor(`top-k ${name}`, answer[name], { dtype, shape });
    outputs.push([value, rowLengths === undefined ? lists : { ...lists, rowLengths }]);
  };
  add(step.scores, "scores", "float32");
  add(step.rows, "rows", "int32");
  add(step.ids, "ids", answer.ids?.dtype ?? "string");
  return outputs;
}

function longest(counts: Uint32Array, k: number): number {
  let most = 0;
  for (const count of counts) most = Math.max(most, count);
  return Math.min(most, k);
}

function expectTensor(
  what: string,
  tensor: Tensor | undefined,
  { dtype, shape }: { readonly dtype: Dtype; readonly shape: readonly number[] },
): Tensor {
  const isRight =
    tensor?.dtype === dtype &&
    tensor.shape.length === shape.length &&
    tensor.shape.every((size, axis) => size === shape[axis]);
  if (!isRight) throw broken(what, `${dtype} [${shape.join(",")}]`, tensor);
  return tensor;
}

function broken(what: string, expected: string, tensor: Tensor | undefined): WinnowError {
  const got = tensor === undefined ? "nothing" : `${tensor.dtype} [${tensor.shape.join(",")}]`;
  return new WinnowError("INTERNAL", `Expected ${expected} as ${what}, got ${got}`);
}
