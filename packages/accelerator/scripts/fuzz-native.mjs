// Lets libFuzzer invent searches (`native/test/self-test-fuzz.cpp`) under the address and
// undefined-behaviour sanitizers: `npm run fuzz:native -- 120` for two minutes. Needs clang with its
// fuzzer. What it finds lies in build/fuzz; give that file as a second argument to see it again.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { buildFolder, compile, compileObjects, selfTestSources } from "./native-compiler.mjs";

const FLAGS = ["-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"];
const DEFAULT_SECONDS = "60";

function findClang() {
  const names = [process.env.CXX, "clang++", "clang++-16", "clang++-14"].filter(Boolean);
  return names.find((name) => /clang/.test(spawnSync(name, ["--version"]).stdout?.toString()));
}

async function main([seconds = DEFAULT_SECONDS, ...found]) {
  const compiler = findClang();
  if (compiler === undefined) return "needs clang";
  const folder = path.join(buildFolder, "fuzz");
  const program = path.join(folder, "fuzz");
  const { objects, problem } = await compileObjects(compiler, {
    sources: selfTestSources("test/self-test-fuzz.cpp"),
    flags: FLAGS,
    folder: `${program}-objects`,
  });
  const unlinked = problem ?? compile(compiler, [...FLAGS, "-o", program, ...objects]);
  if (unlinked !== undefined) return unlinked;
  const corpus = path.join(folder, "corpus");
  mkdirSync(corpus, { recursive: true });
  const options = [`-max_total_time=${seconds}`, "-max_len=4096", `-artifact_prefix=${folder}/`];
  const inputs = found.length > 0 ? found : [corpus];
  const { status } = spawnSync(program, [...options, "-print_final_stats=1", ...inputs], {
    stdio: "inherit",
  });
  return status === 0 ? undefined : "found something";
}

const failure = await main(process.argv.slice(2));
if (failure !== undefined) {
  console.log(`fuzz: ${failure}`);
  process.exitCode = 1;
}
