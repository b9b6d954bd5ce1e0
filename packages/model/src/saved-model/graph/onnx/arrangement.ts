// Operations that move values without computing: shapes, slices, joins. TensorFlow counts in int32
// or int64, as the graph says, ONNX in int64. Values keep TensorFlow's type, so they are cast where
// ONNX needs int64.

import { ONNX_TYPES } from "./onnx-message.ts";
import { stridedSlice } from "./strided-slice.ts";
import type { Translation, Translators } from "./translation.ts";

/** Translators of arrangements. */
export const arrangement: Translators = {
  BroadcastTo: (t) => t.node("Expand", [t.name(0), t.asInt64(1)]),
  ConcatV2: (t) => {
    const parts = t.names.slice(0, -1);
    return t.node("Concat", parts, { axis: t.integer(parts.length) });
  },
  ExpandDims: (t) => t.node("Unsqueeze", [t.name(0), t.model.integers([t.integer(1)])]),
  Fill: (t) => t.node("Expand", [t.name(1), t.asInt64(0)]),
  GatherV2: gather,
  OneHot: oneHot,
  Pack: (t) => {
    const axis = t.operation.attributes.int("axis", 0);
    const parts = t.names.map((name) => t.node("Unsqueeze", [name, t.model.integers([axis])]));
    return t.node("Concat", parts, { axis });
  },
  Pad: pad,
  PadV2: pad,
  Range: range,
  Rank: (t) => counted(t, t.node("Size", [t.node("Shape", [t.name(0)])])),
  Reshape: (t) => t.node("Reshape", [t.name(0), t.asInt64(1)], { allowzero: 1 }),
  Shape: (t) => counted(t, t.node("Shape", [t.name(0)])),
  Size: (t) => counted(t, t.node("Size", [t.name(0)])),
  Slice: slice,
  Split: (t) => {
    const outputCount = t.operation.outputs.length;
    return t.model.nodes("Split", [t.name(1)], { attributes: { axis: t.integer(0) }, outputCount });
  },
  SplitV: (t) => {
    const outputCount = t.operation.outputs.length;
    const attributes = { axis: t.integer(2) };
    const sizes = closedSizes(t, t.integers(1), attributes.axis);
    const inputs = [t.name(0), t.model.integers(sizes)];
    return t.model.nodes("Split", inputs, { attributes, outputCount });
  },
  Squeeze: (t) => {
    const axes = t.operation.attributes.ints("squeeze_dims");
    return t.node("Squeeze", axes.length === 0 ? t.names : [t.name(0), t.model.integers(axes)]);
  },
  StridedSlice: stridedSlice,
  Tile: (t) => t.node("Tile", [t.name(0), t.asInt64(1)]),
  Where: (t) => {
    if (t.dtype(0) !== "bool") throw t.untranslatable(`is given ${t.dtype(0)} values`);
    return t.node("Transpose", [t.node("NonZero", [t.name(0)])], { perm: [1, 0] });
  },
  Transpose: (t) => t.node("Transpose", [t.name(0)], { perm: t.integers(1) }),
  Unpack: (t) => {
    const axis = t.operation.attributes.int("axis", 0);
    const outputCount = t.operation.outputs.length;
    const parts = t.model.nodes("Split", t.names, { attributes: { axis }, outputCount });
    return parts.map((part) => t.node("Squeeze", [part, t.model.integers([axis])]));
  },
};

/** Sizes of a split, of which one may be -1: what the others leave over. */
function closedSizes(t: Translation, sizes: readonly number[], axis: number): readonly number[] {
  const open = sizes.indexOf(-1);
  if (open < 0) return sizes;
  const total = t.value(0).shape?.at(axis) ?? -1;
  const rest = sizes.reduce((left, size) => left - size, total - 1);
  if (total < 0 || rest < 0) throw t.untranslatable("leaves a size open");
  return sizes.with(open, rest);
}

/** A count, which is int64 in ONNX, as the type of the node's output. */
function counted(t: Translation, count: string): string {
  return t.outputDtype === "int64" ? count : t.cast(count, ONNX_TYPES[t.outputDtype]);
}

function gather(t: Translation): string {
  const axis = t.integer(2);
  const batchDims = t.operation.attributes.int("batch_dims", 0);
  if (batchDims === 0) return t.node("Gather", [t.name(0), t.name(1)], { axis });
  const isByRow = batchDims === 1 && axis === 1 && t.rank(0) === 2 && t.rank(1) === 2;
  if (isByRow) return t.node("GatherElements", [t.name(0), t.name(1)], { axis });
  // The axis counted from the first, as the graph may count it from the last.
  const from = axis < 0 ? axis + t.rank(0) : axis;
  const dims = batchDims < 0 ? batchDims + t.rank(1) : batchDims;
  if (from !== dims) throw t.untranslatable(`gathers with ${batchDims} batch dimensions`);
  const places = t.node("Unsqueeze", [t.asInt64(1), t.model.integers([-1])]);
  return t.node("GatherND", [t.name(0), places], { batch_dims: dims });
}

const DEPTH_MAX = 1 << 20;

/** Compares indices with 0, 1, 2, …: an index outside gives no hot value, as in TensorFlow. */
function oneHot(t: Translation): string {
  const depth = t.integer(1);
  if (depth < 0 || depth > DEPTH_MAX) throw t.untranslatable(`has the depth ${depth}`);
  const axis = t.operation.attributes.int("axis", -1);
  if (axis !== -1 && axis !== t.value(0).shape?.length) {
    throw t.untranslatable(`puts the new axis at ${axis}`);
  }
  const index = t.cast(t.name(0), ONNX_TYPES.int64);
  const positions = Array.from({ length: depth }, (_, position) => position);
  const column = t.node("Unsqueeze", [index, t.model.integers([-1])]);
  const isHot = t.node("Equal", [column, t.model.integers(positions)]);
  return t.node("Where", [isHot, t.name(2), t.name(3)]);
}

function pad(t: Translation): string {
  const paddings = t.integers(1);
  const before = paddings.filter((_, index) => index % 2 === 0);
  const after = paddings.filter((_, index) => index % 2 === 1);
  const amounts = t.model.integers([...before, ...after]);
  const value = t.operation.op === "PadV2" ? [t.name(2)] : [];
  return t.node("Pad", [t.name(0), amounts, ...value]);
}

const END = Number.MAX_SAFE_INTEGER;

function slice(t: Translation): string {
  const [begins, sizes] = [t.integers(1), t.integers(2)];
  const ends = begins.map((begin, axis) => (sizes[axis] === -1 ? END : begin + (sizes[axis] ?? 0)));
  const sliced = t.node("Slice", [t.name(0), t.model.integers(begins), t.model.integers(ends)]);
  const { shape } = t.value(0);
  const mayLack = sizes.some((size, axis) => {
    const length = shape?.[axis] ?? -1;
    return size > 0 && (length < 0 || begins[axis]! + size > length);
  });
  if (!mayLack) return sliced;
  // ONNX takes what there is; a shape that the slice must have refuses it, as TensorFlow does. 0 leaves a size as it is.
  return t.node("Reshape", [sliced, t.model.integers(sizes.map((size) => Math.max(size, 0)))]);
}

/** ONNX gives nothing where a limit lies on the other side of the start; TensorFlow refuses that. */
function range(t: Translation): string {
  const [start, limit, delta] = t.names;
  const way = t.node("Mul", [t.node("Sub", [limit!, start!]), t.node("Sign", [delta!])]);
  const isAway = t.node("Less", [way, t.model.scalar(t.dtype(0), 0)]);
  const label = `${t.operation.name} requires start <= limit when delta > 0, and start >= limit when delta < 0`;
  const place = t.cast(isAway, ONNX_TYPES.int64);
  const zero = t.model.nodes("Gather", [t.model.integers([0]), place], { label })[0]!;
  const checked = t.node("Add", [start!, t.cast(zero, ONNX_TYPES[t.dtype(0)])]);
  return t.node("Range", [checked, limit!, delta!]);
}
