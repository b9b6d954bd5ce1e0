// How many rows a search returns: a number of the program, or a scalar that each request brings, if `k` is an
// input of the signature. The cost of a request is computed from it before the request runs, so the
// operations between the input and the search (a cast, a minimum, `k[0]`) are few and cheap, and run on the
// host.

import { WinnowError } from "../errors/errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { runHostStep } from "./operations/host-operations.ts";
import { invalid } from "./node-error.ts";
import { valuesDefinedBy, valuesReadBy } from "./program-plan.ts";
import type {
  DenseStep,
  SearchDepth,
  SignatureProgram,
  Step,
  TopKStep,
  ValueId,
} from "./program.ts";
import { OF_SIZES } from "./unequal-inputs.ts";

/** Operations that are allowed between an input and the k of a search; `Shape` is of an input alone. */
export const DEPTH_OPERATIONS: ReadonlySet<string> = new Set(
  "Cast,Reshape,Squeeze,ExpandDims,StridedSlice,GatherV2,Minimum,Maximum,AddV2,Sub,Mul,Max,Min,Shape".split(
    ",",
  ),
);

const OPERATIONS_MAX = 16;

/** The k that a tensor holds. @throws WinnowError INVALID_ARGUMENT in TensorFlow's words */
export function depthOf({ dtype, shape, data }: Tensor): number {
  if (shape.length > 0) throw invalid(`k must be scalar, got shape [${shape.join(",")}]`);
  return dtype === "string" ? NaN : Number(data[0]);
}

/**
 * The k of a search for a request's inputs; `undefined` if they do not give one: the search then refuses the
 * request, unless it belongs to a branch that does not run.
 */
export function requestedDepth(
  signature: SignatureProgram,
  { k }: Pick<TopKStep, "k">,
  inputs: ReadonlyMap<string, Tensor>,
): number | undefined {
  if (typeof k === "number") return k;
  try {
    return depthOf(valueOf(k.value, { signature, inputs, operationsLeft: OPERATIONS_MAX }));
  } catch (error) {
    if (error instanceof WinnowError) return undefined;
    throw error;
  }
}

/** A k for people: its number, or the name of the input that gives it. */
export function depthText({ inputs }: SignatureProgram, k: SearchDepth): string {
  if (typeof k === "number") return String(k);
  const named = inputs.find(({ value }) => value === k.value);
  return named === undefined ? "by the request" : `input "${named.name}"`;
}

/**
 * The error of a dense part that computes with what a search found, told by the `k` of the request where the graph was made
 * for another one; else the error itself.
 */
export function errorOfDepth(
  error: unknown,
  step: DenseStep,
  { steps, k }: Pick<SignatureProgram, "steps"> & { readonly k: number | undefined },
): unknown {
  const isRefusal = error instanceof WinnowError && error.code === "INVALID_ARGUMENT";
  if (!isRefusal || k === undefined || !OF_SIZES.test(error.message)) return error;
  const search = steps.find((each): each is TopKStep => {
    const isMadeForOne = each.kind === "topK" && typeof each.k === "number" && each.k !== k;
    return isMadeForOne && isReadBehind(each, step, steps);
  });
  if (typeof search?.k !== "number") return error;
  const text = `k is ${k}, but the graph computes with the ${search.k} items of its search (node ${search.node})`;
  return new WinnowError("INVALID_ARGUMENT", `${text}: ask without k`, { cause: error });
}

/** Whether a step reads what a search finds, or what other steps make of it. Steps stand behind those that they read. */
function isReadBehind(search: TopKStep, reader: DenseStep, steps: readonly Step[]): boolean {
  const found = new Set(valuesDefinedBy(search));
  for (const step of steps) {
    const isBehind = valuesReadBy(step).some((value) => found.has(value));
    if (step === reader) return isBehind;
    if (isBehind) for (const value of valuesDefinedBy(step)) found.add(value);
  }
  return false;
}

interface Known {
  readonly signature: SignatureProgram;
  readonly inputs: ReadonlyMap<string, Tensor>;
  operationsLeft: number;
}

function valueOf(value: ValueId, known: Known): Tensor {
  const { signature, inputs } = known;
  const input = signature.inputs.find((each) => each.value === value);
  const given =
    input === undefined
      ? signature.constants.find((each) => each.value === value)?.tensor
      : inputs.get(input.name);
  if (given !== undefined) return given;
  const step = signature.steps.find((each) => valuesDefinedBy(each).includes(value));
  known.operationsLeft -= 1;
  if (step?.kind !== "host" || known.operationsLeft < 0) throw invalid("k is not known yet");
  const operands = step.inputs.map((each) => valueOf(each, known));
  return runHostStep(step, operands, [])[step.outputs.indexOf(value)]!;
}
