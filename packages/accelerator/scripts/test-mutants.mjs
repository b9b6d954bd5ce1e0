// Shows that the native self-test can fail: compiles it with one thing wrong at a time, from a copy of
// the sources, and expects it to notice. Where a constant is larger than the proof of
// `kernels/bound.h` needs, it is set to just below the need. `npm run test:mutants -- slack` takes
// those whose name has a word, `-- --texts` none: it tells which of them no longer fit the sources.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import {
  buildFolder,
  compile,
  compileObjects,
  findCompiler,
  nativeFolder,
  objectFile,
  selfTestSources,
} from "./native-compiler.mjs";

const FLAGS = ["-O1", "-w"];
const folder = path.join(buildFolder, "mutants");
const copyFolder = path.join(folder, "native");
const program = path.join(folder, "self-test");

/** Each: what is wrong, where, the text and what replaces it, and the part of the test to notice. */
const MUTANTS = [
  ["no relative slack", "kernels/bound.h", "RELATIVE_SLACK = 1e-6", "RELATIVE_SLACK = 0", "bounds"],
  [
    "relative slack below 2^-24",
    "kernels/bound.h",
    "RELATIVE_SLACK = 1e-6",
    "RELATIVE_SLACK = 5.5e-8",
    "bounds",
  ],
  [
    "no absolute slack",
    "kernels/bound.h",
    "ABSOLUTE_SLACK = 1e-44",
    "ABSOLUTE_SLACK = 0",
    "bounds",
  ],
  [
    "absolute slack below 2^-150",
    "kernels/bound.h",
    "ABSOLUTE_SLACK = 1e-44",
    "ABSOLUTE_SLACK = 6.5e-46",
    "bounds",
  ],
  ["no norm slack", "kernels/bound.h", "= 1 + RELATIVE_SLACK", "= 1", "bounds"],
  [
    "no absolute slack of norms",
    "kernels/bound.h",
    "NORM_SLACK + ABSOLUTE_SLACK",
    "NORM_SLACK",
    "bounds",
  ],
  ["no row error", "kernels/bound.h", "block.rowError * norm +", "0 +", "bounds"],
  [
    "a thousandth less row error",
    "kernels/bound.h",
    "block.rowError * norm +",
    "0.999 * block.rowError * norm +",
    "bounds",
  ],
  ["no query error", "kernels/bound.h", "block.codeNorm * error;", "0;", "bounds"],
  [
    "a limit rounded up too far",
    "kernels/bound.h",
    "limit += lanes.offset[i];",
    "limit += lanes.offset[i] + 1.1;",
    "bounds",
  ],
  [
    "limits that end too early",
    "kernels/bound.h",
    "LIMIT_MAX = 1.07e9",
    "LIMIT_MAX = 1.05e9",
    "bounds",
  ],
  [
    "limits that end too late",
    "kernels/bound.h",
    "LIMIT_MAX = 1.07e9",
    "LIMIT_MAX = 1.2e9",
    "kernels",
  ],
  [
    "lower bounds too high",
    "kernels/bound.h",
    "<float>(middle - error)",
    "<float>(middle - 0.999 * error)",
    "bounds",
  ],
  [
    "upper bounds too low",
    "kernels/bound.h",
    "<float>(middle + error)",
    "<float>(middle + 0.999 * error)",
    "bounds",
  ],
  [
    "query norms not rounded up",
    "search/queries/query-code.cpp",
    "ROUND_UP = 1 + 1e-9",
    "ROUND_UP = 1",
    "bounds",
  ],
  [
    "table norms not rounded up",
    "table/row-coder.h",
    "ROUND_UP = 1 + 1e-9",
    "ROUND_UP = 1",
    "bounds",
  ],
  [
    "a shift by too little",
    "table/row-checks.cpp",
    "shift(PIECE_BYTES)",
    "shift(PIECE_BYTES - 1)",
    "checks",
  ],
  [
    "infinity taken for a number",
    "table/row-checks.cpp",
    "== 0x7f800000u",
    "> 0x7f800000u",
    "checks",
  ],
  [
    "values where a row has none",
    "table/row-coder-loops.h",
    "* middle * present",
    "* middle",
    "coders",
  ],
  ["keys by some of their digits", "table/key-sort.h", "PASSES = 3", "PASSES = 1", "coders"],
  [
    "equal scores in the order of digits",
    "table/key-sort.h",
    "keys.data() + end)",
    "keys.data() + start)",
    "searches",
  ],
  [
    "a coding of another scale",
    "search/queries/query-batch.cpp",
    "->dimScales() != scales",
    "->dimScales().empty()",
    "searches",
  ],
  [
    "a part of the queries with another's exclusions",
    "search/request-split.cpp",
    "assign(rows + starts[range.start],",
    "assign(rows,",
    "searches",
  ],
  [
    "a part of the queries with another's row filters",
    "search/request-split.cpp",
    "assign(numbers + range.start, numbers + range.end)",
    "assign(numbers, numbers + range.end - range.start)",
    "searches",
  ],
  [
    "a scan that ends where a filter admits no row",
    "search/filter/unit-scan.h",
    "return isReached;",
    "return !active_.empty();",
    "searches",
  ],
  [
    "a row admitted by another query's filter",
    "search/filter/unit-scan.h",
    "admissions_[active_[lane].admission].rows",
    "admissions_[0].rows",
    "searches",
  ],
  [
    "a filter in the order of rows where positions are meant",
    "search/queries/row-filter.cpp",
    "const uint32_t row = order[16 * part + at];",
    "const uint32_t row = 64 * word + 16 * part + at;",
    "searches",
  ],
  [
    "queries of several filters over the rows of one",
    "search/finish/dense-scan.cpp",
    "filterOf(queries_[place - 1]) != filterOf(queries_[place])",
    "false",
    "searches",
  ],
  [
    "the last admitted row of a word left out",
    "search/finish/dense-scan.cpp",
    "from = (from / 64 + 1) * 64;",
    "from = (from / 64 + 2) * 64;",
    "searches",
  ],
  [
    "parts of survivors that do not meet",
    "search/finish/search-finish.cpp",
    "(part + 1) * chosen / parts_",
    "(part + 1) * (chosen / parts_)",
    "searches",
  ],
  [
    "query norms less than RELATIVE_SLACK makes up for",
    "search/queries/query-batch.cpp",
    "ROUND_UP = 1 + 1e-9",
    "ROUND_UP = 1 - 3e-6",
    "searches",
  ],
  [
    "scores that overflow are filtered",
    "search/queries/query-batch.cpp",
    "OVERFLOW_NORM = 1e37",
    "OVERFLOW_NORM = 1e99",
    "searches",
  ],
  [
    "a threshold one too few reach",
    "search/filter/candidate-pool.cpp",
    "if (count < k_)",
    "if (count + 1 < k_)",
    "searches",
  ],
  [
    "who might reach the threshold is dropped",
    "search/filter/candidate-pool.cpp",
    ".upper >= least",
    ".lower >= least",
    "searches",
  ],
  [
    "who might reach the last score is dropped",
    "search/finish/search-finish.cpp",
    ".upper < least",
    ".lower < least",
    "searches",
  ],
  [
    "guesses are trusted",
    "search/finish/search-finish.cpp",
    "if (isConfirmed(query, ending.keys))",
    "if (true)",
    "guesses",
  ],
  [
    "a query filtered again keeps its guess",
    "search/queries/query-state.h",
    "threshold_.reset(",
    "threshold_.raiseTo(",
    "guesses",
  ],
  [
    "blocks cut anew while some are out",
    "memory/scratch-store.cpp",
    "if (--takenBlocks_ > 0) return;",
    "--takenBlocks_;",
    "memory",
  ],
  [
    "blocks smaller than asked for",
    "memory/scratch-store.cpp",
    "(bytes + step - 1) / step",
    "bytes / step",
    "memory",
  ],
  [
    "codes that saturate AVX2's sums",
    "kernels/kernel-avx2.cpp",
    "CODE_SUM_MAX = 128",
    "CODE_SUM_MAX = 132",
    "kernels",
  ],
  [
    "the last of an odd number of AVX2's groups left out",
    "kernels/kernel-avx2.cpp",
    "call.groups % 2 != 0",
    "call.groups == 0",
    "kernels",
  ],
  [
    "codes that saturate once they are rounded",
    "search/queries/query-code.cpp",
    "SUM_ROUNDING = 2",
    "SUM_ROUNDING = 0",
    "bounds",
  ],
  [
    "codes of one sign that may meet, all but one",
    "search/queries/query-code.cpp",
    "{greatestSum, half[0], half[1]}",
    "{greatestSum, half[0]}",
    "bounds",
  ],
  [
    "a sum of zero does not survive",
    "kernels/kernel-portable.cpp",
    "sums[r] >= 0",
    "sums[r] > 0",
    "kernels",
  ],
  [
    "a query whose survivors are not told of",
    "kernels/kernel-portable.cpp",
    "survivors != 0",
    "survivors > 1",
    "kernels",
  ],
  [
    "scores of another tree",
    "kernels/kernel-portable.cpp",
    "lanes[4]) +",
    "lanes[2]) +",
    "kernels",
  ],
];

/** The files that a file includes, itself or through others, and the file. */
function filesSeenBy(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  const text = readFileSync(path.join(nativeFolder, file), "utf8");
  for (const [, included] of text.matchAll(/^#include "([^"]+)"/gm)) filesSeenBy(included, seen);
  return seen;
}

/** Sources that see this file: itself, or all that include it. */
function sourcesSeeing(file) {
  return selfTestSources().filter((source) => filesSeenBy(source).has(file));
}

/** Compiles these sources and links them with what the others were compiled to. */
async function compileSources(compiler, sources) {
  const made = await compileObjects(compiler, { sources, root: copyFolder, flags: FLAGS, folder });
  if (made.problem !== undefined) return made.problem;
  const objects = selfTestSources().map((source) => objectFile(folder, source));
  return compile(compiler, [...FLAGS, "-o", program, ...objects]);
}

function runPart(part) {
  const { status, stdout } = spawnSync(program, part, { encoding: "utf8" });
  return { isPassed: status === 0, lastLine: stdout.trimEnd().split("\n").at(-1) };
}

/** In words why a mutant does not fit the sources. */
function strangeness([, file, text]) {
  const original = readFileSync(path.join(nativeFolder, file), "utf8");
  return original.split(text).length === 2 ? undefined : `${file} has not one "${text}"`;
}

/** In words what is amiss with the test, or undefined: it noticed. */
async function tryMutant(compiler, mutant) {
  const strange = strangeness(mutant);
  if (strange !== undefined) return strange;
  const [name, file, text, replacement, part] = mutant;
  const original = readFileSync(path.join(nativeFolder, file), "utf8");
  const sources = sourcesSeeing(file);
  const objects = sources.map((source) => objectFile(folder, source));
  for (const object of objects) renameSync(object, `${object}.sound`);
  writeFileSync(path.join(copyFolder, file), original.replace(text, replacement));
  const problem = await compileSources(compiler, sources);
  writeFileSync(path.join(copyFolder, file), original);
  for (const object of objects) renameSync(`${object}.sound`, object);
  if (problem !== undefined) return `cannot compile\n${problem}`;
  const { isPassed, lastLine } = runPart([part]);
  if (isPassed) return "nobody noticed";
  console.log(`${name}: ${lastLine}`);
  return undefined;
}

async function main(words) {
  if (words[0] === "--texts") {
    const strangers = MUTANTS.map(strangeness).filter((each) => each !== undefined);
    return strangers.length > 0 ? strangers.join("\n") : undefined;
  }
  const named = MUTANTS.filter(([name]) => words.every((word) => name.includes(word)));
  if (named.length === 0) return `none has ${words.join(" and ")} in its name`;
  const wanted = named.filter(
    ([, file]) => process.arch === "x64" || !file.startsWith("kernels/kernel-avx"),
  );
  const compiler = findCompiler();
  if (compiler === undefined) return "no C++ compiler (g++, c++ or clang++)";
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(nativeFolder, copyFolder, { recursive: true });
  const problem = await compileSources(compiler, selfTestSources());
  if (problem !== undefined) return problem;
  const { isPassed, lastLine } = runPart(["kernels", "bounds", "searches"]);
  if (!isPassed) return `without a mutant: ${lastLine}`;
  const survivors = [];
  for (const mutant of wanted) {
    const amiss = await tryMutant(compiler, mutant);
    if (amiss !== undefined) survivors.push(`${mutant[0]}: ${amiss}`);
  }
  rmSync(folder, { recursive: true });
  if (survivors.length > 0) return survivors.join("\n");
  console.log(`mutants: all ${wanted.length} noticed`);
  return undefined;
}

const failure = await main(process.argv.slice(2));
if (failure !== undefined) {
  console.log(`mutants: ${failure}`);
  process.exitCode = 1;
}
