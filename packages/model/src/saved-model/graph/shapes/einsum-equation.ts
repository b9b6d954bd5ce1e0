// Equations of Einsum with a letter for each axis, also where they have an ellipsis: `...d,nd->...n` is `ZYd,nd->ZYn` of
// three axes.

import type { GraphValue } from "../graph-value.ts";

/** Letters that stand for the axes of an ellipsis. */
const LETTERS = "ZYXW";
const ELLIPSIS = "...";

/** An equation without spaces, and with letters in the place of an ellipsis, if one operand alone has it. */
export function spelledOut(text: string, inputs: readonly Pick<GraphValue, "shape">[]): string {
  const equation = text.replaceAll(" ", "");
  const terms = equation.split("->")[0]!.split(",");
  const [at, ...others] = Array.from(terms.keys()).filter((term) =>
    terms[term]!.includes(ELLIPSIS),
  );
  const rank = at === undefined ? undefined : inputs[at]?.shape?.length;
  if (at === undefined || rank === undefined || others.length > 0) return equation;
  const axes = rank - terms[at]!.length + ELLIPSIS.length;
  const isFree = axes >= 0 && axes <= LETTERS.length && !/[W-Z]/.test(equation);
  return isFree ? equation.replaceAll(ELLIPSIS, LETTERS.slice(0, axes)) : equation;
}
