// Space to batch and back: rows of an axis that lie `block` apart become rows of the batch, where a
// convolution without dilation finds them side by side. TensorFlow writes dilated convolutions so.
//
//   [batch, a, b, …]  ⇄  [batch, a / blockA, blockA, b / blockB, blockB, …]
//                     ⇄  [blockA, blockB, batch, a / blockA, b / blockB, …]
//                     ⇄  [blockA · blockB · batch, a / blockA, b / blockB, …]

import { integersOf } from "../graph-value.ts";
import { combined, shapeOf, sizesOf } from "./sizes.ts";
import type { Size } from "./sizes.ts";
import type { Translation, Translators } from "./translation.ts";

/** Translators of moves between space and batch. */
export const blocks: Translators = {
  BatchToSpaceND: batchToSpace,
  SpaceToBatchND: spaceToBatch,
};

/** Cells added in front and behind, or cut off there, by axis. */
type Margins = readonly (readonly [Size, Size])[];

function spaceToBatch(t: Translation): string {
  const blocks = blocksOf(t);
  const margins = marginsOf(t, blocks.length);
  const [batch = 1, ...rest] = sizesOf(t, 0);
  const others = rest.slice(blocks.length).map(() => 0);
  const befores = [0, ...margins.map(([before]) => before), ...others];
  const afters = [0, ...margins.map(([, after]) => after), ...others];
  const padded = t.node("Pad", [t.name(0), shapeOf(t, [...befores, ...afters])]);
  const cells = margins.map(([before, after], axis) => {
    const whole = combined(t, "Add", combined(t, "Add", rest[axis]!, before), after);
    return combined(t, "Div", whole, blocks[axis]!);
  });
  const depths = rest.slice(blocks.length);
  const pieces = cells.flatMap((count, axis) => [count, blocks[axis]!]);
  const cut = t.node("Reshape", [padded, shapeOf(t, [batch, ...pieces, ...depths])], EXACT);
  const perm = [
    ...blocks.map((_, axis) => 2 * axis + 2),
    0,
    ...blocks.map((_, axis) => 2 * axis + 1),
    ...depths.map((_, axis) => 2 * blocks.length + 1 + axis),
  ];
  const moved = t.node("Transpose", [cut], { perm });
  const rows = combined(t, "Mul", batch, productOf(blocks));
  return t.node("Reshape", [moved, shapeOf(t, [rows, ...cells, ...depths])], EXACT);
}

function batchToSpace(t: Translation): string {
  const blocks = blocksOf(t);
  const margins = marginsOf(t, blocks.length);
  const [rows = 1, ...rest] = sizesOf(t, 0);
  const cells = rest.slice(0, blocks.length);
  const depths = rest.slice(blocks.length);
  const batch = combined(t, "Div", rows, productOf(blocks));
  const cut = t.node("Reshape", [t.name(0), shapeOf(t, [...blocks, batch, ...rest])], EXACT);
  const perm = [
    blocks.length,
    ...blocks.flatMap((_, axis) => [blocks.length + 1 + axis, axis]),
    ...depths.map((_, axis) => 2 * blocks.length + 1 + axis),
  ];
  const moved = t.node("Transpose", [cut], { perm });
  const whole = cells.map((count, axis) => combined(t, "Mul", count, blocks[axis]!));
  const joined = t.node("Reshape", [moved, shapeOf(t, [batch, ...whole, ...depths])], EXACT);
  const starts = margins.map(([before]) => before);
  const ends = margins.map(([, after], axis) => combined(t, "Sub", whole[axis]!, after));
  const axes = t.model.integers(blocks.map((_, axis) => axis + 1));
  return t.node("Slice", [joined, shapeOf(t, starts), shapeOf(t, ends), axes]);
}

/** A size of zero is zero, not "as it was". */
const EXACT = { allowzero: 1 };

function productOf(blocks: readonly number[]): number {
  return blocks.reduce((product, block) => product * block, 1);
}

function blocksOf(t: Translation): readonly number[] {
  const blocks = t.integers(1);
  const isWrong =
    blocks.length >= t.rank(0) || blocks.some((block) => block < 1 || block > BLOCK_MAX);
  if (isWrong) throw t.untranslatable(`has the blocks [${blocks.join(",")}]`);
  return blocks;
}

/** A larger block is a damaged file. */
const BLOCK_MAX = 1 << 20;

function marginsOf(t: Translation, count: number): Margins {
  const known = integersOf(t.value(2));
  const flat = known === undefined ? t.node("Reshape", [t.asInt64(2), t.model.integers([-1])]) : "";
  const at = (index: number): Size =>
    known?.[index] ?? t.node("Gather", [flat, t.model.integers([index])], { axis: 0 });
  return Array.from({ length: count }, (_, axis) => [at(2 * axis), at(2 * axis + 1)] as const);
}
