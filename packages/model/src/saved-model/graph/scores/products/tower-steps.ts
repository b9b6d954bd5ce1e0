// Collects the steps of an item tower (partitions/row-computation.ts). A row computation knows no axes; here each value
// has them, without the one that numbers the items, so that values broadcast, are reduced and are rearranged as in a
// graph.

import { elementCount } from "@winnow/core";
import type {
  Reduction,
  RowFunctionName,
  RowOperand,
  RowStep,
} from "../../../partitions/row-computation.ts";

const STEPS_MAX = 256;
/** Values of a row between two layers, at most. */
export const WIDTH_MAX = 32_768;

/** Values of each item, or the same values for all: the step or the content, and the axes of it. */
export interface Values {
  readonly of: RowOperand;
  readonly shape: readonly number[];
}

/** Values that a step gives. */
export interface ItemValues extends Values {
  readonly of: number;
}

/** A number for all items. */
export function numberFor(value: number): Values {
  return { of: Float32Array.of(value), shape: [] };
}

/** The steps so far. */
export class TowerSteps {
  readonly all: RowStep[] = [];

  /** Adds a step; `undefined` where there are too many of them, or too many values. */
  add(step: RowStep, shape: readonly number[]): ItemValues | undefined {
    const isWide = step.dim < 1 || step.dim > WIDTH_MAX;
    if (isWide || this.all.length >= STEPS_MAX) return undefined;
    return { of: this.all.push(step) - 1, shape };
  }

  /** A function of one value, or of two that broadcast; `undefined` where one of them is. */
  apply(op: RowFunctionName, ...operands: readonly (Values | undefined)[]): ItemValues | undefined {
    const spread = this.#spreadAll(operands);
    if (spread === undefined) return undefined;
    const { shape, known } = spread;
    const [of, by] = known;
    return this.add({ kind: "elementwise", op, of: of!, by, dim: elementCount(shape) }, shape);
  }

  /** Values of the second where the first is not 0, else those of the third. */
  choose(...operands: readonly (Values | undefined)[]): ItemValues | undefined {
    const spread = this.#spreadAll(operands);
    if (spread?.known.length !== 3) return undefined;
    const { shape, known } = spread;
    const [where, of, by] = known as [RowOperand, RowOperand, RowOperand];
    return this.add({ kind: "chosen", where, of, by, dim: elementCount(shape) }, shape);
  }

  /** What values along neighbouring axes become, from the first one to before the end; these axes stay, with one value. */
  reduce(
    { of, shape }: ItemValues,
    how: Reduction,
    [first, end]: readonly [number, number],
  ): ItemValues | undefined {
    const reduced = shape.map((size, axis) => (axis >= first && axis < end ? 1 : size));
    const count = elementCount(shape.slice(first, end));
    const inner = elementCount(shape.slice(end));
    if (count < 1) return undefined;
    return this.add(
      { kind: "reduced", of, how, count, inner, dim: elementCount(reduced) },
      reduced,
    );
  }

  /** Products of the vectors along the last axis and a kernel `[values of a product, values of a vector]`. */
  product({ of, shape }: ItemValues, kernel: Float32Array): ItemValues | undefined {
    const width = shape.at(-1) ?? 0;
    const products = kernel.length / width;
    if (!Number.isInteger(products)) return undefined;
    const made = [...shape.slice(0, -1), products];
    return this.add({ kind: "product", of, width, kernel, dim: elementCount(made) }, made);
  }

  /** Values one behind the other in each row, whatever their axes. */
  joined(parts: readonly ItemValues[]): ItemValues | undefined {
    const dim = parts.reduce((sum, { shape }) => sum + elementCount(shape), 0);
    if (parts.length === 1) return { ...parts[0]!, shape: [dim] };
    return this.add({ kind: "joined", of: parts.map(({ of }) => of), dim }, [dim]);
  }

  /** Values by their places. */
  picked(
    { of, shape }: ItemValues,
    places: Int32Array,
    made: readonly number[],
  ): ItemValues | undefined {
    const isSame =
      places.length === elementCount(shape) && places.every((place, at) => place === at);
    if (isSame) return { of, shape: made };
    return this.add({ kind: "picked", of, places, dim: places.length }, made);
  }

  /** Rows of a table by their numbers. */
  gathered(
    { of, shape }: ItemValues,
    table: Float32Array,
    axes: readonly number[],
  ): ItemValues | undefined {
    const made = [...shape, ...axes];
    const width = elementCount(axes);
    return this.add({ kind: "gathered", of, table, width, dim: elementCount(made) }, made);
  }

  /** Values as operands of one shape. */
  #spreadAll(
    operands: readonly (Values | undefined)[],
  ): { readonly shape: readonly number[]; readonly known: readonly RowOperand[] } | undefined {
    let shape: readonly number[] | undefined = [];
    for (const operand of operands) {
      shape = shape && operand && broadcastShape(shape, operand.shape);
    }
    if (shape === undefined || elementCount(shape) > WIDTH_MAX) return undefined;
    const wanted = shape;
    const known = operands.flatMap((operand) => this.#spread(operand!, wanted) ?? []);
    return known.length < operands.length ? undefined : { shape, known };
  }

  /** A value of another shape, as an operand of as many values as that has, or of one. */
  #spread({ of, shape }: Values, wanted: readonly number[]): RowOperand | undefined {
    const count = elementCount(shape);
    if (count === elementCount(wanted) || count === 1) return of;
    const places = placesOf(shape, wanted);
    if (typeof of === "number") return this.picked({ of, shape }, places, wanted)?.of;
    return places.length > WIDTH_MAX ? undefined : Float32Array.from(places, (place) => of[place]!);
  }
}

/** The shape of two that broadcast. */
function broadcastShape(a: readonly number[], b: readonly number[]): readonly number[] | undefined {
  const rank = Math.max(a.length, b.length);
  const shape = Array.from({ length: rank }, (_, at) => {
    const [left = 1, right = 1] = [a[at - rank + a.length], b[at - rank + b.length]];
    return left === right || right === 1 ? left : left === 1 ? right : -1;
  });
  return shape.includes(-1) ? undefined : shape;
}

/** The place of each value of a shape that another one broadcasts to. */
function placesOf(shape: readonly number[], wanted: readonly number[]): Int32Array {
  const missing = wanted.length - shape.length;
  const places = new Int32Array(elementCount(wanted));
  for (const at of places.keys()) {
    let [left, place, step] = [at, 0, 1];
    for (let axis = wanted.length - 1; axis >= missing; axis -= 1) {
      const size = shape[axis - missing]!;
      if (size > 1) place += (left % wanted[axis]!) * step;
      step *= size;
      left = Math.floor(left / wanted[axis]!);
    }
    places[at] = place;
  }
  return places;
}
