// SavedModels with answers recorded from TensorFlow, and the rule by which an answer counts as
// TensorFlow's: values within 1e-5 × max(1, |value|); items in the same order, except that items whose
// scores lie within that of each other may swap, because TensorFlow's own sums differ by that much
// from run to run. Where a model is marked exact, nothing may differ.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";

/** A JSON value as the recordings and the REST API use it. */
export type Json =
  number | string | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** One recorded request. */
export interface OracleCase {
  readonly kind: string;
  /** One value per row, by input name. */
  readonly inputs: Readonly<Record<string, readonly Json[]>>;
  /** One value per row, by output name; absent where TensorFlow refused the request. */
  readonly outputs?: Readonly<Record<string, readonly Json[]>>;
  readonly error?: { readonly code: string; readonly message: string };
  /** Per row, the score of rank k + 1: tells a tie at the cut. */
  readonly next_score?: readonly number[];
}

/** One recorded model. */
export interface OracleModel {
  readonly name: string;
  /** Directory that holds the version directories. */
  readonly basePath: string;
  readonly signatureName: string;
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly cases: readonly OracleCase[];
}

const root = path.resolve(import.meta.dirname, "..");
const folders = [
  path.join(root, "test/data/savedmodels"),
  path.join(root, "../shared/savedmodels"),
];

/** Every recorded model that is there: the project's own always, the larger shared set where present. */
export function oracleModels(): OracleModel[] {
  for (const folder of folders) {
    if (!existsSync(folder))
      process.stderr.write(`${folder} is absent: its models are not tested\n`);
  }
  return folders.filter((folder) => existsSync(folder)).flatMap((folder) => modelsIn(folder));
}

function modelsIn(folder: string): OracleModel[] {
  return readdirSync(folder)
    .toSorted()
    .filter((name) => existsSync(path.join(folder, name, "oracle.json")))
    .map((name) => readModel(name, path.join(folder, name)));
}

interface OracleFile {
  readonly signature_name: string;
  readonly signature: {
    readonly inputs: Readonly<Record<string, unknown>>;
    readonly outputs: Readonly<Record<string, unknown>>;
  };
  readonly cases: readonly OracleCase[];
}

function readModel(name: string, basePath: string): OracleModel {
  const file = JSON.parse(readFileSync(path.join(basePath, "oracle.json"), "utf8")) as OracleFile;
  return {
    name,
    basePath,
    signatureName: file.signature_name,
    inputNames: Object.keys(file.signature.inputs),
    outputNames: Object.keys(file.signature.outputs),
    cases: file.cases,
  };
}

/** Models whose every score is an exact sum: there nothing may differ. */
const EXACT_MODELS = new Set(["retrieval_ties"]);
const TOLERANCE = 1e-5;

/** What is wrong with the outputs of a case, or `undefined` if they are TensorFlow's. */
export function oracleFault(
  model: OracleModel,
  recorded: OracleCase,
  outputs: Readonly<Record<string, readonly Json[]>>,
): string | undefined {
  const expected = recorded.outputs ?? {};
  const tolerance = EXACT_MODELS.has(model.name) ? 0 : TOLERANCE;
  for (const name of Object.keys(expected)) {
    if (outputs[name] === undefined) return `output ${name} is missing`;
    if (outputs[name].length !== expected[name]!.length) return `output ${name} has other rows`;
  }
  const ranked = rankedOutputs(expected);
  for (const [name, rows] of Object.entries(expected)) {
    for (const [row, value] of rows.entries()) {
      if (ranked !== undefined && name === ranked.ids) continue;
      const fault = valueFault(outputs[name]![row]!, value, tolerance);
      if (fault !== undefined) return `${name}[${row}]: ${fault}`;
    }
  }
  if (ranked === undefined) return undefined;
  for (const row of expected[ranked.ids]!.keys()) {
    const fault = rankingFault({
      ids: outputs[ranked.ids]![row] as Json[],
      expectedIds: expected[ranked.ids]![row] as Json[],
      scores: expected[ranked.scores]![row] as number[],
      nextScore: recorded.next_score?.[row],
      tolerance,
    });
    if (fault !== undefined) return `${ranked.ids}[${row}]: ${fault}`;
  }
  return undefined;
}

/** The pair of outputs that are scores and ids of a top-k, if there is one. */
function rankedOutputs(
  outputs: Readonly<Record<string, readonly Json[]>>,
): { readonly scores: string; readonly ids: string } | undefined {
  const lists = Object.entries(outputs).filter(([, rows]) => Array.isArray(rows[0]));
  const names = lists.map(([name]) => name);
  const scores = names.find((name) => name === "output_1" || name === "scores");
  const ids = names.find((name) => ["output_2", "ids", "titles"].includes(name));
  return scores !== undefined && ids !== undefined ? { scores, ids } : undefined;
}

function valueFault(actual: Json, expected: Json, tolerance: number): string | undefined {
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) {
      return `${JSON.stringify(actual)} has another shape than ${JSON.stringify(expected)}`;
    }
    return expected
      .map((value: Json, index) => valueFault((actual as Json[])[index]!, value, tolerance))
      .find((fault) => fault !== undefined);
  }
  if (typeof expected === "number" && typeof actual === "number") {
    const slack = tolerance * Math.max(1, Math.abs(expected));
    return Math.abs(actual - expected) <= slack ? undefined : `${actual} is not ${expected}`;
  }
  return JSON.stringify(actual) === JSON.stringify(expected)
    ? undefined
    : `${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`;
}

interface Ranking {
  readonly ids: readonly Json[];
  readonly expectedIds: readonly Json[];
  readonly scores: readonly number[];
  readonly nextScore: number | undefined;
  readonly tolerance: number;
}

/** Items must stand where they stood, or within a run of scores that tie within the tolerance. */
function rankingFault(ranking: Ranking): string | undefined {
  const { ids, expectedIds, scores, tolerance } = ranking;
  if (ids.length !== expectedIds.length) return `${ids.length} ids, not ${expectedIds.length}`;
  const close = (a: number, b: number): boolean =>
    tolerance > 0 && Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(a));
  for (let start = 0, end = 0; start < ids.length; start = end) {
    end = start + 1;
    while (end < ids.length && close(scores[end - 1]!, scores[end]!)) end += 1;
    const isCut = end === ids.length && ranking.nextScore !== undefined;
    // Items beyond the cut that tie with its last score may stand in for those within it.
    if (isCut && close(scores[end - 1]!, ranking.nextScore!)) continue;
    const got = ids.slice(start, end).map(String).toSorted();
    const wanted = expectedIds.slice(start, end).map(String).toSorted();
    if (got.join("\u0000") !== wanted.join("\u0000")) {
      return `rank ${start + 1}: ${JSON.stringify(got)} is not ${JSON.stringify(wanted)}`;
    }
  }
  return undefined;
}
