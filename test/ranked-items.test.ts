// Attributes of items that a dense part ranks, as the program of a version brings them to routers: found by the ids that
// the graph answers, each copy once, and refused where the file describes nothing that is answered.

import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { decodeProgram, encodeProgram, memberTexts } from "@winnow/core";
import type { ModelProgram, RankedItems } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { expect, test } from "vitest";
import { SHAPES, writeScores } from "./models/written-scores.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const root = temporaryDirectory();
const recorded = path.resolve(import.meta.dirname, "data/savedmodels");
let versions = 0;

/** The program of a model beside a file of attributes, as routers have it. */
function programWith(model: string | undefined, name: string, content: string): ModelProgram {
  versions += 1;
  const directory = path.join(root, `version ${versions}`);
  if (model === undefined) {
    writeScores(
      SHAPES.find(({ isDense, rank }) => isDense && rank === undefined)!,
      directory,
    );
  } else {
    cpSync(path.join(recorded, model, "1"), directory, { recursive: true });
  }
  const folder = path.join(directory, "assets.extra");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  writeFileSync(path.join(folder, name), content);
  const version = openModelVersion(directory);
  version.close();
  return decodeProgram(encodeProgram(version.program));
}

/** Which attributes each ranking of a program names, by the signature. */
function describedBy({ signatures }: ModelProgram): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    signatures.flatMap(({ name, steps }) =>
      steps
        .flatMap((step) => (step.kind === "dense" ? (step.rankings ?? []) : []))
        .map(({ described }) => [name, described] as const),
    ),
  );
}

function yearsOf({ columns }: RankedItems, rows: readonly number[]): readonly string[] {
  const write = memberTexts(new Map(columns.map((column) => [column.spec.name, column])), ["year"]);
  return rows.flatMap((row) => write(row));
}

test("are those of the item that a row stands for, and nothing for one that is not described", () => {
  const line = (id: string, year: number) => `${JSON.stringify({ id, year })}\n`;
  const content = line("item 3", 1954) + line("nobody", 1) + line("item 0", 1995);

  const { rankedItems } = programWith(undefined, "items.jsonl", content);

  expect(rankedItems).toHaveLength(1);
  expect(yearsOf(rankedItems![0]!, [0, 1, 3])).toEqual([
    '"year":1995',
    '"year":null',
    '"year":1954',
  ]);
});

test("are one copy for rankings of the same items, beside tables that are cut", () => {
  const program = programWith("computed_items", "items.csv", "id,year\nitem 05,1990\n");

  expect(describedBy(program)).toEqual({
    dense_cosine_of_columns: 0,
    dense_product_of_two: 0,
    dense_two_replaced: 0,
  });
  expect(program.rankedItems).toHaveLength(1);
  expect(yearsOf(program.rankedItems![0]!, [4, 5])).toEqual(['"year":null', '"year":1990']);
  const [table] = program.tables;
  expect(table?.kind === "candidate" && table.attributes).toHaveLength(1);
});

test.each([
  ["items.csv", "id,year\n1,1990\n7,1\n"],
  ["items.jsonl", '{"id":1,"year":1990}\n{"id":7,"year":1}\n'],
])("in %s are those of every row that has an integer id", (name, content) => {
  const { rankedItems } = programWith("hidden_items", name, content);

  const rows = Array.from({ length: 40 }, (_, row) => row);
  // The graph answers 0, 1, 2, 0, 1, … for its rows.
  expect(yearsOf(rankedItems![0]!, rows)).toEqual(
    rows.map((row) => `"year":${row % 3 === 1 ? 1990 : null}`),
  );
});

test("are refused where no signature answers ids of the file's type, or none at all", () => {
  const numbered = '{"id":5,"year":1991}\n';

  for (const cut of [undefined, "computed_items"]) {
    expect(() => programWith(cut, "items.jsonl", numbered)).toThrow(
      /Cannot use assets\.extra\/items\.jsonl: its ids are integers, those of table .* are string/,
    );
  }
  expect(() => programWith("dense_only", "items.jsonl", numbered)).toThrow(
    "no signature of the model searches a table of items, or ranks items and names them",
  );
});
