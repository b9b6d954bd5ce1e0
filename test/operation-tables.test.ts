// The tables of docs/operations.md against the code: operations by where they run, and scores with what becomes of
// them, each an expression of which TensorFlow's answers are recorded (test/oracle.test.ts asks for them).
//
//   OPERATIONS=rewrite npx vitest run --config test/vitest.config.ts --root . test/operation-tables.test.ts
//
// writes the tables anew.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { hostOperationNames } from "@winnow/core";
import type { ModelProgram, SignatureProgram } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { describe, expect, test } from "vitest";
import { loweredOperationNames } from "../packages/model/src/saved-model/graph/lowering.ts";
import { denseOperationNames } from "../packages/model/src/saved-model/graph/onnx/dense-translation.ts";
import { askedAlone, neededByModels } from "./models/recorded-operations.ts";

const root = path.resolve(import.meta.dirname, "..");
const page = path.join(root, "docs/operations.md");

/** Recorded models by the dictionary of expressions that their script makes signatures of. */
const RECORDED: readonly (readonly [script: string, dictionary: string, model: string])[] = [
  ["record_savedmodels.py", "SCORES", "score_expressions"],
  ["record_searches.py", "DISTANCES", "distances"],
  ["record_searches.py", "BEST_OF", "several_interests"],
  ["record_searches.py", "TIED", "tied_scores"],
  ["record_searches.py", "MASKS", "masked_searches"],
  ["record_searches.py", "HIDDEN_ITEMS", "hidden_items"],
  ["record_searches.py", "SLICES", "sliced_candidates"],
  ["record_searches.py", "COMPUTED", "computed_items"],
  ["record_searches.py", "SEQUENCES", "sequence_scores"],
  ["record_searches.py", "TOWERS", "item_towers"],
  ["record_searches.py", "FEATURES", "item_features"],
  ["record_searches.py", "WEIGHED", "weighed_biases"],
  ["record_searches.py", "GATED", "weighed_products"],
  ["record_searches.py", "ONE_VECTOR", "one_vector"],
  ["record_searches.py", "NARROW_SEARCHES", "narrow_searches"],
  ["record_searches.py", "SERVED", "served_spellings"],
];

/** The expressions of a dictionary by the names of their signatures. */
function expressionsOf(script: string, dictionary: string): ReadonlyMap<string, string> {
  const text = readFileSync(path.join(root, "test/data", script), "utf8");
  const [, body = ""] = new RegExp(`^${dictionary} = \\{\\n(.*?)^\\}`, "ms").exec(text) ?? [];
  const entries = body.matchAll(/^ {4}"(\w+)": .*?lambda [\w, ]+: (.*),$/gm);
  return new Map(
    Array.from(entries, ([, name, expression]) => {
      // Masks stand within the function that ends a signature, and that within a tuple.
      const [, masked] = /^kept\(m, (.*?)(?:, \d+)?\)\)$/.exec(expression!) ?? [];
      return [name!, masked ?? expression!];
    }),
  );
}

const isCalled = ({ methodName }: SignatureProgram): boolean => methodName !== "";

/** What becomes of a signature's scores. */
function outcomeOf({ steps }: SignatureProgram, { tables }: ModelProgram): string {
  const search = steps.find((step) => step.kind === "topK");
  if (search === undefined) return "not cut";
  const { dim } = tables[search.table]!;
  const { functions = [], masks = [], vectors } = search;
  return [
    `cut, ${dim} values for each row`,
    ...(vectors === undefined ? [] : [`best of ${vectors} vectors`]),
    ...(functions.length === 0 ? [] : [functions.map(({ op }) => op).join(", ")]),
    ...masks.map(({ penalty }) => (penalty === undefined ? "mask" : "penalty")),
  ].join("; ");
}

function rowsOf([script, dictionary, model]: (typeof RECORDED)[number]): readonly string[] {
  const expressions = expressionsOf(script, dictionary);
  const version = openModelVersion(path.join(root, "test/data/savedmodels", model, "1"));
  const { program } = version;
  version.close();
  const called = program.signatures.filter(isCalled);
  return Array.from(expressions, ([name, expression]) => {
    const signature = called.find((each) => each.name === name);
    if (signature === undefined) throw new Error(`${model} has no signature ${name}`);
    return `| \`${expression.replaceAll("|", "\\|")}\` | ${outcomeOf(signature, program)} |`;
  });
}

const namesOf = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(" ");

const tables: Readonly<Record<string, string>> = {
  "operations that become something else": namesOf(loweredOperationNames),
  "operations in a dense part": namesOf(denseOperationNames),
  "operations of a router": namesOf(hostOperationNames),
  scores: ["| scores | items |", "| --- | --- |", ...RECORDED.flatMap(rowsOf)].join("\n"),
};

const marker = (name: string): string => `<!-- table: ${name} -->`;

/** The page with these tables. */
function rewritten(text: string): string {
  return Object.entries(tables).reduce((all, [name, table]) => {
    const [before, after = ""] = all.split(marker(name));
    return `${before}${marker(name)}\n\n${table}\n\n<!-- end -->${after.slice(after.indexOf("<!-- end -->") + "<!-- end -->".length)}`;
  }, text);
}

test("docs/operations.md says what the code does", () => {
  const text = readFileSync(page, "utf8");
  const wanted = rewritten(text);
  if (process.env["OPERATIONS"] === "rewrite") writeFileSync(page, wanted);

  expect(readFileSync(page, "utf8")).toBe(wanted);
});

test.each(RECORDED)("%s, %s: every signature of %s has a row", (...recorded) => {
  const [script, dictionary, model] = recorded;
  const version = openModelVersion(path.join(root, "test/data/savedmodels", model, "1"));
  const names = version.program.signatures.filter(isCalled).map(({ name }) => name);
  version.close();
  const expressions = expressionsOf(script, dictionary);

  expect(names.filter((name) => !expressions.has(name) && name !== "serving_default")).toEqual([]);
  expect(rowsOf(recorded)).toHaveLength(expressions.size);
});

describe("of each operation in the tables an answer of TensorFlow is recorded", () => {
  const alone = [askedAlone("dense-operations.json"), askedAlone("host-operations.json")];
  const needed = neededByModels();
  const unrecorded = (
    names: readonly string[],
    recorded: readonly ReadonlySet<string>[],
  ): string[] => names.filter((name) => !recorded.some((names) => names.has(name)));

  test("that becomes something else, in a model", () => {
    expect(unrecorded(loweredOperationNames, [needed])).toEqual([]);
  });

  test("in a dense part, alone or in a model", () => {
    expect(unrecorded(denseOperationNames, [alone[0]!, needed])).toEqual([]);
  });

  test("of a router, alone or in a model", () => {
    expect(unrecorded(hostOperationNames, [...alone, needed])).toEqual([]);
  });
});
