// Sizes of axes on the way into a shape: known while the graph is read, or measured when the model
// runs. Operations that cut axes into pieces (blocks, heads) multiply and divide them.

import type { Translation } from "./translation.ts";

/** A size that is known, or the name of an int64 vector `[1]` that holds it. */
export type Size = number | string;

/** The sizes of an input whose rank is known. @throws WinnowError UNIMPLEMENTED where it is not */
export function sizesOf(t: Translation, position: number): Size[] {
  t.rank(position);
  let measured: string | undefined;
  return t.value(position).shape!.map((size, axis): Size => {
    if (size >= 0) return size;
    measured ??= t.node("Shape", [t.name(position)]);
    return t.node("Gather", [measured, t.model.integers([axis])], { axis: 0 });
  });
}

/** One size out of two, by an operation of ONNX: `Add`, `Mul`, `Div`. */
export function combined(
  t: Translation,
  op: "Add" | "Sub" | "Mul" | "Div",
  ...pair: [Size, Size]
): Size {
  const [a, b] = pair;
  if (typeof a === "number" && typeof b === "number") {
    return { Add: a + b, Sub: a - b, Mul: a * b, Div: Math.floor(a / b) }[op];
  }
  return t.node(op, [asVector(t, a), asVector(t, b)]);
}

/** A list of sizes as one int64 vector. */
export function shapeOf(t: Translation, sizes: readonly Size[]): string {
  const isNumber = (size: Size): size is number => typeof size === "number";
  if (sizes.every(isNumber)) return t.model.integers(sizes);
  return t.node(
    "Concat",
    sizes.map((size) => asVector(t, size)),
    { axis: 0 },
  );
}

function asVector(t: Translation, size: Size): string {
  return typeof size === "number" ? t.model.integers([size]) : size;
}
