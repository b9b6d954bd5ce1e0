// Computes the layers of an item tower for rows as they are read. Every value of a row follows from what is stored of
// that row alone, and from weights that are the same for all, so a row has the same bits whoever reads it, together
// with whichever others. Sums are added up in float64 in one order and rounded once; all else is rounded to float32
// after each operation, as a graph does.

import { elementFunction } from "@winnow/core";
import type { ElementFunctionName } from "@winnow/core";

/** Position of the step whose values are meant, or the same values for all rows: one, or one for each dimension. */
export type RowOperand = number | Float32Array;

/** Gives each row `dim` values. */
export type RowStep = { readonly dim: number } & (
  | {
      readonly kind: "stored";
      /** 0: the table's own one; then those beside it. */ readonly matrix: number;
    }
  | {
      readonly kind: "product";
      readonly of: number;
      /** `[dim, values of a row before]`: what gives the same value lies together. */
      readonly kernel: Float32Array;
    }
  | {
      readonly kind: "elementwise";
      readonly op: ElementFunctionName;
      readonly of: RowOperand;
      readonly by: RowOperand | undefined;
    }
  | { readonly kind: "sum"; readonly of: number; readonly isMean: boolean }
  | { readonly kind: "joined"; readonly of: readonly number[] }
);

/** Bytes of the widest values that are computed together. */
const VALUES_BYTES = 2 ** 20;

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

  /** Writes the values of so many rows, given what each stored matrix has of them. */
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
        multiply(values, this.#values[step.of]!, { rows, ...step });
        break;
      case "elementwise":
        this.#apply(values, step, rows);
        break;
      case "sum":
        sum(values, this.#values[step.of]!, { ...step, width: this.#steps[step.of]!.dim });
        break;
      case "joined":
        this.#join(values, step, rows);
        break;
    }
  }

  #apply(
    values: Float32Array,
    { dim, op, of, by = of }: RowStep & { readonly kind: "elementwise" },
    rows: number,
  ): void {
    const apply = elementFunction(op);
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

  #join(
    values: Float32Array,
    { dim, of }: RowStep & { readonly kind: "joined" },
    rows: number,
  ): void {
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
}

/** Four sums at a time, which read each value of a row once. */
function multiply(
  out: Float32Array,
  values: Float32Array,
  {
    rows,
    dim,
    kernel,
  }: { readonly rows: number; readonly dim: number; readonly kernel: Float32Array },
): void {
  const width = kernel.length / dim;
  for (let row = 0; row < rows; row += 1) {
    const from = row * width;
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
      const to = row * dim + column;
      out[to] = s0;
      out[to + 1] = s1;
      out[to + 2] = s2;
      out[to + 3] = s3;
    }
    for (; column < dim; column += 1) {
      let total = 0;
      for (let at = 0; at < width; at += 1)
        total += values[from + at]! * kernel[column * width + at]!;
      out[row * dim + column] = total;
    }
  }
}

function sum(
  out: Float32Array,
  values: Float32Array,
  { width, isMean }: { readonly width: number; readonly isMean: boolean },
): void {
  for (let row = 0; row < out.length; row += 1) {
    let total = 0;
    for (let at = row * width; at < (row + 1) * width; at += 1) total += values[at]!;
    out[row] = isMean ? total / width : total;
  }
}
