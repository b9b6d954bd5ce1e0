// Rows of a table that no search returns: items that were removed, or whose vector was replaced by that of a row that was
// added. A column of the table names them, so they are left out as a filter leaves out rows.

import type { AttributeSpec } from "../../attributes/attribute-column.ts";
import type { Filter } from "../../attributes/filter.ts";
import type { CandidateTable } from "../program.ts";
import type { TopKQuestion } from "../step-contract.ts";

/** The column that is true for such rows, and has no value for others. No attribute can have this name. */
export const WITHDRAWN: AttributeSpec = { name: "\0withdrawn", type: "boolean", isList: false };

const NOT_WITHDRAWN: Filter = {
  kind: "not",
  of: { kind: "test", attribute: WITHDRAWN.name, is: "exists", values: [] },
};

/** A question that finds no withdrawn row of its table. */
export function withoutWithdrawn<Question extends Pick<TopKQuestion, "admits">>(
  question: Question,
  { masks }: CandidateTable,
): Question {
  if (masks?.some(({ name }) => name === WITHDRAWN.name) !== true) return question;
  const { admits = [] } = question;
  if (admits.length === 0) return { ...question, admits: [NOT_WITHDRAWN] };
  const both = admits.map((each): Filter => ({ kind: "and", of: [each, NOT_WITHDRAWN] }));
  return { ...question, admits: both };
}
