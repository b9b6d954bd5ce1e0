// Products of tensors by an equation, such as those of attention heads. Where operands share an axis
// with the result, the rows of a batch, ONNX Runtime cannot multiply what has no values
// (empty-operands.ts).

import { mayBeEmpty, unlessEmpty } from "./empty-operands.ts";
import { shapeOf, sizesOf } from "./sizes.ts";
import type { Size } from "./sizes.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { Translation } from "./translation.ts";
import type { Translators } from "./translation.ts";

/** The translator of Einsum. */
export const einsum: Translators = {
  Einsum: (t) => {
    const equation = equationOf(t);
    const axes = axesOf(t, equation);
    const product = (model: OnnxModel): string => model.node("Einsum", t.names, { equation });
    return axes === undefined || !isUnsafe(t, axes) ? product(t.model) : guarded(t, axes, product);
  },
};

/** The equation with its letters in lower case, which every ONNX runtime reads. */
function equationOf(t: Translation): string {
  const equation = t.operation.attributes.text("equation").replaceAll(" ", "");
  const letters = [...new Set(equation.match(/[a-z]/gi))];
  if (letters.length > 26) throw t.untranslatable("names more than 26 axes");
  return equation.replaceAll(/[a-z]/gi, (letter) =>
    String.fromCodePoint(97 + letters.indexOf(letter)),
  );
}

interface Axes {
  /** A letter per axis; axes behind an ellipsis are numbered from the right. */
  readonly operands: readonly (readonly string[])[];
  readonly result: readonly string[];
}

/** Letters of all axes; `undefined` where the equation or the graph does not tell them. */
function axesOf(t: Translation, equation: string): Axes | undefined {
  const [left = "", right] = equation.split("->");
  if (right === undefined) return undefined;
  const operands: string[][] = [];
  let widest: string[] = [];
  for (const [position, term] of left.split(",").entries()) {
    const rank = t.value(position).shape?.length;
    if (rank === undefined) return undefined;
    const count = term.includes("...") ? rank - (term.length - 3) : 0;
    const hidden = Array.from({ length: Math.max(0, count) }, (_, at) => String(count - 1 - at));
    if (hidden.length > widest.length) widest = hidden;
    operands.push(lettersOf(term, hidden));
  }
  return { operands, result: lettersOf(right, widest) };
}

function lettersOf(term: string, hidden: readonly string[]): string[] {
  const [before = "", after] = term.split("...");
  return after === undefined
    ? Array.from(before)
    : [...Array.from(before), ...hidden, ...Array.from(after)];
}

/** Whether operands share an axis with the result, and some may have no values. */
function isUnsafe(t: Translation, { operands, result }: Axes): boolean {
  const isShared = result.some(
    (letter) => operands.filter((axes) => axes.includes(letter)).length > 1,
  );
  return isShared && operands.some((_, at) => mayBeEmpty(t, at));
}

function guarded(t: Translation, axes: Axes, product: (model: OnnxModel) => string): string {
  const [result] = unlessEmpty(t, {
    operands: t.names,
    outputs: [t.outputDtype],
    compute: (model) => [product(model)],
    shape: (model) => resultShape(new Translation(model, t.operation, t.names), axes),
  });
  return result!;
}

/** The sizes of the result's axes; where a size of 1 is spread over another, the other. */
function resultShape(t: Translation, { operands, result }: Axes): string {
  const sizes = new Map<string, Size>();
  for (const [position, letters] of operands.entries()) {
    for (const [axis, size] of sizesOf(t, position).entries()) {
      const letter = letters[axis]!;
      const known = sizes.get(letter);
      if (known === undefined || known === 1) sizes.set(letter, size);
    }
  }
  return shapeOf(
    t,
    result.map((letter) => sizes.get(letter) ?? 1),
  );
}
