// Comparisons, logic and choice. Strings compare for equality, as TensorFlow's kernels allow.

import {
  broadcastPositions,
  broadcastShape,
  broadcastValues,
  joined,
  numbersOf,
  takeValues,
} from "../element-positions.ts";
import { booleanAttribute, inputAt, numericAt, wrongDtype } from "../host-call.ts";
import type { HostCall, HostOperation, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { outputCount, tensorOf, zeros } from "../tensor-memory.ts";

type Comparable = number | bigint;

/** Comparisons, logic and choice, by TensorFlow's name. */
export const comparisonOperations: HostOperations = {
  Equal: (call) => equality(call, true),
  NotEqual: (call) => equality(call, false),
  Less: comparison((a, b) => a < b),
  LessEqual: comparison((a, b) => a <= b),
  Greater: comparison((a, b) => a > b),
  GreaterEqual: comparison((a, b) => a >= b),
  LogicalAnd: comparison((a, b) => a !== 0 && b !== 0),
  LogicalOr: comparison((a, b) => a !== 0 || b !== 0),
  LogicalNot: test((value) => value === 0),
  IsNan: test((value) => Number.isNaN(value)),
  IsInf: test((value) => Math.abs(Number(value)) === Infinity),
  IsFinite: test((value) => Number.isFinite(value)),
  SelectV2: select,
  Select: selectRows,
};

function comparison(isTrue: (a: Comparable, b: Comparable) => boolean): HostOperation {
  return (call) => {
    const a = numericAt(call, 0);
    const b = numericAt(call, 1);
    const shape = broadcastShape(a.shape, b.shape);
    return [compared([a, b], shape, isTrue)];
  };
}

function compared(
  [a, b]: readonly [Tensor, Tensor],
  shape: readonly number[],
  isTrue: (a: Comparable, b: Comparable) => boolean,
): Tensor {
  if (a.dtype !== b.dtype) throw invalid(`Cannot compare ${a.dtype} with ${b.dtype}`);
  const out = zeros("bool", shape);
  const valuesA = numbersOf(broadcastValues(a, shape));
  const valuesB = numbersOf(broadcastValues(b, shape));
  for (let at = 0; at < out.length; at += 1) out[at] = Number(isTrue(valuesA[at]!, valuesB[at]!));
  return tensorOf("bool", shape, out);
}

function test(isTrue: (value: Comparable) => boolean): HostOperation {
  return (call) => {
    const { shape, data } = numericAt(call, 0);
    const out = zeros("bool", shape);
    for (let at = 0; at < out.length; at += 1) out[at] = Number(isTrue(data[at]!));
    return [tensorOf("bool", shape, out)];
  };
}

function equality(call: HostCall, wanted: boolean): Tensor[] {
  const a = inputAt(call, 0);
  const b = inputAt(call, 1);
  const shape = equalityShape(call, a, b);
  if (shape === undefined) return [tensorOf("bool", [], Uint8Array.of(Number(!wanted)))];
  if (a.dtype !== "string" || b.dtype !== "string") {
    return [compared([a, b], shape, (x, y) => (x === y) === wanted)];
  }
  const positionsA = broadcastPositions(a.shape, shape);
  const positionsB = broadcastPositions(b.shape, shape);
  const out = zeros("bool", shape);
  for (let at = 0; at < out.length; at += 1) {
    const isSame = equalBytes(a.data.at(positionsA[at]!), b.data.at(positionsB[at]!));
    out[at] = Number(isSame === wanted);
  }
  return [tensorOf("bool", shape, out)];
}

/** The common shape; `undefined` if there is none and the graph declares such operands unequal. */
function equalityShape(call: HostCall, a: Tensor, b: Tensor): number[] | undefined {
  try {
    return broadcastShape(a.shape, b.shape);
  } catch (error) {
    if (booleanAttribute(call, "incompatible_shape_error", true)) throw error;
    return undefined;
  }
}

/** Whether two byte strings are the same. */
function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at += 1) if (a[at] !== b[at]) return false;
  return true;
}

function select(call: HostCall): Tensor[] {
  const condition = conditionOf(call);
  const yes = inputAt(call, 1);
  const no = inputAt(call, 2);
  const shape = broadcastShape(condition.shape, broadcastShape(yes.shape, no.shape));
  const chooses = numbersOf(broadcastValues(condition, shape));
  return [chosen([yes, no], chooses as Uint8Array, shape)];
}

/** `Select`: a condition of one dimension chooses whole rows. */
function selectRows(call: HostCall): Tensor[] {
  const condition = conditionOf(call);
  const shape = inputAt(call, 1).shape;
  const missing = shape.length - condition.shape.length;
  if (condition.shape.length !== 1 || missing < 1) return select(call);
  const wide = { ...condition, shape: [...condition.shape, ...Array<number>(missing).fill(1)] };
  return select({ ...call, inputs: [wide, inputAt(call, 1), inputAt(call, 2)] });
}

function conditionOf(call: HostCall): Tensor {
  const condition = inputAt(call, 0);
  if (condition.dtype !== "bool") throw wrongDtype(call, condition);
  return condition;
}

function chosen(
  [yes, no]: readonly [Tensor, Tensor],
  chooses: Uint8Array,
  shape: readonly number[],
): Tensor {
  outputCount(shape);
  const fromYes = broadcastPositions(yes.shape, shape);
  const fromNo = broadcastPositions(no.shape, shape);
  const both = joined([yes, no]);
  const positions = fromYes.map((position, at) =>
    chooses[at] === 0 ? fromNo[at]! + yes.data.length : position,
  );
  return takeValues(both, positions, shape);
}
