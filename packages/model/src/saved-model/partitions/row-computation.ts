// Computes the layers of an item tower for rows as they are read. Every value of a row follows from what is stored of
// that row alone, and from weights that are the same for all, so a row has the same bits whoever reads it, together
// with whichever others. Sums are added up in float64 in one order and rounded once; all else is rounded to float32
// after each operation, as a graph does.
//
// The values of a row between two steps are one vector, whatever axes they have in the graph: of a row of 5 tokens with
// 8 values each, 40 values. Numbers of rows and truth values are float32 too: 0, 1, 2, …

import { WinnowError, elementFunction } from "@winnow/core";
import type { ElementFunctionName } from "@winnow/core";

/** Position of the step whose values are meant, or the same values for all rows: one, or one for each dimension. */
export type RowOperand = number | Float32Array;

/** Functions of one value or two. */
export type RowFunctionName = ElementFunctionName | OwnFunctionName;

/** Gives each row `dim` values. */
export type RowStep = { readonly dim: number } & (
  | {
      readonly kind: "stored";
      /** 0: the table's own one; then those beside it. */ readonly matrix: number;
    }
  | {
      readonly kind: "product";
      readonly of: number;
      /** Values of each vector that is multiplied, of which a row may have several. */
      readonly width: number;
      /** `[values of a product, width]`: what gives the same value lies together. */
      readonly kernel: Float32Array;
    }
  | {
      readonly kind: "elementwise";
      readonly op: RowFunctionName;
      readonly of: RowOperand;
      readonly by: RowOperand | undefined;
    }
  | {
      /** Values of one operand where a condition is not 0, else those of another. */
      readonly kind: "chosen";
      readonly where: RowOperand;
      readonly of: RowOperand;
      readonly by: RowOperand;
    }
  | {
      /** What `count` values become, which lie `inner` values apart. */
      readonly kind: "reduced";
      readonly of: number;
      readonly how: Reduction;
      readonly count: number;
      readonly inner: number;
    }
  | { readonly kind: "joined"; readonly of: readonly number[] }
  | {
      /** Values of a row by their places, in any order and number. */
      readonly kind: "picked";
      readonly of: number;
      readonly places: Int32Array;
    }
  | {
      /** Rows of a table of `width` values each, which every worker has as a whole, by their numbers. */
      readonly kind: "gathered";
      readonly of: number;
      readonly table: Float32Array;
      readonly width: number;
    }
);

/** How several values become one; `SumIntegers` refuses sums that float32 does not hold. */
export type Reduction = "Max" | "Mean" | "Min" | "Sum" | "SumIntegers";

type OwnFunctionName =
  | "Abs"
  | "AddIntegers"
  | "DivNoNan"
  | "Equal"
  | "Erf"
  | "Erfc"
  | "Greater"
  | "GreaterEqual"
  | "Less"
  | "LessEqual"
  | "NotEqual"
  | "Sign";

const OWN: Readonly<Record<OwnFunctionName, (value: number, operand: number) => number>> = {
  Abs: Math.abs,
  AddIntegers: (value, other) => integer(value + other),
  DivNoNan: (value, by) => (by === 0 ? 0 : elementFunction("Div")(value, by)),
  Equal: (value, other) => Number(value === other),
  Erf: (value) => Math.fround(erf(value)),
  Erfc: (value) => Math.fround(erfc(value)),
  Greater: (value, other) => Number(value > other),
  GreaterEqual: (value, other) => Number(value >= other),
  Less: (value, other) => Number(value < other),
  LessEqual: (value, other) => Number(value <= other),
  NotEqual: (value, other) => Number(value !== other),
  Sign: Math.sign,
};

/** Integers up to here are float32. */
export const INTEGER_MAX: number = 2 ** 24;

function integer(value: number): number {
  if (Math.abs(value) <= INTEGER_MAX) return value;
  throw refused(`counts to ${value}, more than ${INTEGER_MAX}`);
}

function refused(what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `an item tower ${what}`);
}

function functionOf(op: RowFunctionName): (value: number, operand: number) => number {
  return op in OWN ? OWN[op as OwnFunctionName] : elementFunction(op as ElementFunctionName);
}

/** From here on the series has many terms, and 1 - erf few digits. */
const SERIES_MAX = 3;
const FRACTION_TERMS = 64;

/** 2 / √π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1 · 3 · … · (2n + 1)): all terms have one sign, so no digits are lost. */
function erf(value: number): number {
  if (Math.abs(value) >= SERIES_MAX) return Math.sign(value) * (1 - erfc(Math.abs(value)));
  const square = value * value;
  let term = value;
  let sum = value;
  for (let odd = 3; Math.abs(term) > Math.abs(sum) * Number.EPSILON; odd += 2) {
    term *= (2 * square) / odd;
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-square) * sum;
}

/** 1 - erf(x); of large x exp(-x²) / √π / (x + ½ / (x + 1 / (x + 1½ / (x + …)))). */
function erfc(value: number): number {
  if (value < SERIES_MAX) return 1 - erf(value);
  let fraction = value;
  for (let term = FRACTION_TERMS; term > 0; term -= 1) fraction = value + term / 2 / fraction;
  return Math.exp(-value * value) / Math.sqrt(Math.PI) / fraction;
}

/** Bytes of the widest values that are computed together. */
const VALUES_BYTES = 2 ** 20;

type Step<Kind extends RowStep["kind"]> = RowStep & { readonly kind: Kind };

/** Computes rows by some steps. */
export class RowComputing {
  readonly #steps: readonly RowStep[];
  readonly #values: Float32Array[];
  /** How many rows may be computed together. */
  readonly rowsMax: number;

  constructor(steps: readonly RowStep[]) {
    this.#steps = steps;
    this.#values = steps.map(() => new Float32Array());
    const widest = Math.max(...steps.map(({ dim }) => dim));
    this.rowsMax = Math.max(1, Math.floor(VALUES_BYTES / (widest * 4)));
  }

  /** Values of each row. */
  get dim(): number {
    return this.#steps.at(-1)!.dim;
  }

  /** Writes the values of so many rows, given what each stored matrix has of them. @throws WinnowError */
  compute(out: Float32Array, stored: readonly Float32Array[], rows: number): void {
    const last = this.#steps.length - 1;
    for (const [at, step] of this.#steps.entries()) {
      const length = rows * step.dim;
      if (step.kind === "stored" && at < last) {
        this.#values[at] = stored[step.matrix]!;
        continue;
      }
      if (this.#values[at]!.length < length) this.#values[at] = new Float32Array(length);
      const values = at === last ? out : this.#values[at]!.subarray(0, length);
      this.#write(values, step, { stored, rows });
    }
    // A zero below 0 would give another sum than 0 does.
    for (let at = 0; at < out.length; at += 1) out[at]! += 0;
  }

  #write(
    values: Float32Array,
    step: RowStep,
    { stored, rows }: { readonly stored: readonly Float32Array[]; readonly rows: number },
  ): void {
    switch (step.kind) {
      case "stored":
        values.set(stored[step.matrix]!);
        break;
      case "product":
        multiply(values, this.#values[step.of]!, step);
        break;
      case "elementwise":
        this.#apply(values, step, rows);
        break;
      case "chosen":
        this.#choose(values, step, rows);
        break;
      case "reduced":
        reduce(values, this.#values[step.of]!, step);
        break;
      case "joined":
        this.#join(values, step, rows);
        break;
      case "picked":
        this.#pick(values, step, rows);
        break;
      case "gathered":
        gather(values, this.#values[step.of]!, step);
        break;
    }
  }

  #apply(values: Float32Array, { dim, op, of, by = of }: Step<"elementwise">, rows: number): void {
    const apply = functionOf(op);
    const [left, right] = [this.#operand(of), this.#operand(by)];
    let at = 0;
    for (let row = 0; row < rows; row += 1) {
      const [a, b] = [row * left.rowStep, row * right.rowStep];
      for (let column = 0; column < dim; column += 1, at += 1) {
        values[at] = apply(
          left.values[a + column * left.step]!,
          right.values[b + column * right.step]!,
        );
      }
    }
  }

  #choose(values: Float32Array, { dim, where, of, by }: Step<"chosen">, rows: number): void {
    const condition = this.#operand(where);
    const operands = [this.#operand(by), this.#operand(of)] as const;
    let at = 0;
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < dim; column += 1, at += 1) {
        const isTrue = condition.values[row * condition.rowStep + column * condition.step] !== 0;
        const chosen = operands[isTrue ? 1 : 0];
        values[at] = chosen.values[row * chosen.rowStep + column * chosen.step]!;
      }
    }
  }

  /** Values with how far those of neighbouring rows and dimensions lie apart: 0 where all have one. */
  #operand(operand: RowOperand): {
    readonly values: Float32Array;
    readonly rowStep: number;
    readonly step: 0 | 1;
  } {
    if (typeof operand !== "number") {
      return { values: operand, rowStep: 0, step: operand.length > 1 ? 1 : 0 };
    }
    const { dim } = this.#steps[operand]!;
    return { values: this.#values[operand]!, rowStep: dim, step: dim > 1 ? 1 : 0 };
  }

  #join(values: Float32Array, { dim, of }: Step<"joined">, rows: number): void {
    let first = 0;
    for (const part of of) {
      const width = this.#steps[part]!.dim;
      const own = this.#values[part]!;
      for (let row = 0; row < rows; row += 1) {
        values.set(own.subarray(row * width, (row + 1) * width), row * dim + first);
      }
      first += width;
    }
  }

  #pick(values: Float32Array, { dim, of, places }: Step<"picked">, rows: number): void {
    const width = this.#steps[of]!.dim;
    const own = this.#values[of]!;
    for (let row = 0; row < rows; row += 1) {
      const [from, to] = [row * width, row * dim];
      for (let at = 0; at < dim; at += 1) values[to + at] = own[from + places[at]!]!;
    }
  }
}

/** Four sums at a time, which read each value of a vector once. */
function multiply(
  out: Float32Array,
  values: Float32Array,
  { kernel, width }: Pick<Step<"product">, "kernel" | "width">,
): void {
  const dim = kernel.length / width;
  const vectors = out.length / dim;
  for (let vector = 0; vector < vectors; vector += 1) {
    const from = vector * width;
    let column = 0;
    for (; column + 4 <= dim; column += 4) {
      const k0 = column * width;
      const [k1, k2, k3] = [k0 + width, k0 + 2 * width, k0 + 3 * width];
      let s0 = 0;
      let s1 = 0;
      let s2 = 0;
      let s3 = 0;
      for (let at = 0; at < width; at += 1) {
        const value = values[from + at]!;
        s0 += value * kernel[k0 + at]!;
        s1 += value * kernel[k1 + at]!;
        s2 += value * kernel[k2 + at]!;
        s3 += value * kernel[k3 + at]!;
      }
      const to = vector * dim + column;
      out[to] = s0;
      out[to + 1] = s1;
      out[to + 2] = s2;
      out[to + 3] = s3;
    }
    for (; column < dim; column += 1) {
      let total = 0;
      for (let at = 0; at < width; at += 1)
        total += values[from + at]! * kernel[column * width + at]!;
      out[vector * dim + column] = total;
    }
  }
}

const REDUCTIONS: Readonly<Record<Reduction, (total: number, value: number) => number>> = {
  Max: Math.max,
  Mean: (total, value) => total + value,
  Min: Math.min,
  Sum: (total, value) => total + value,
  SumIntegers: (total, value) => integer(total + value),
};

function reduce(
  out: Float32Array,
  values: Float32Array,
  { how, count, inner }: Pick<Step<"reduced">, "how" | "count" | "inner">,
): void {
  const add = REDUCTIONS[how];
  for (let at = 0; at < out.length; at += 1) {
    const from = Math.floor(at / inner) * count * inner + (at % inner);
    let total = values[from]!;
    for (let place = 1; place < count; place += 1)
      total = add(total, values[from + place * inner]!);
    out[at] = how === "Mean" ? total / count : total;
  }
}

function gather(
  out: Float32Array,
  numbers: Float32Array,
  { table, width }: Pick<Step<"gathered">, "table" | "width">,
): void {
  const rows = table.length / width;
  for (let at = 0; at * width < out.length; at += 1) {
    const number = numbers[at]!;
    if (!(number >= 0 && number < rows)) {
      throw refused(`looks up row ${number} of a table of ${rows} rows`);
    }
    out.set(table.subarray(number * width, (number + 1) * width), at * width);
  }
}
