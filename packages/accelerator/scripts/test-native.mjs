// Compiles and runs the native self-test: plain, then under the address and undefined-behaviour
// sanitizers, then under the thread sanitizer. `npm run test:native -- thread` runs one of them.

import { spawnSync } from "node:child_process";
import path from "node:path";
import process from "node:process";
import {
  buildFolder,
  compile,
  compileObjects,
  findCompiler,
  selfTestSources,
} from "./native-compiler.mjs";

const VARIANTS = {
  plain: [],
  address: ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
  thread: ["-O1", "-g", "-fsanitize=thread"],
};

async function compileVariant(compiler, flags, program) {
  const { objects, problem } = await compileObjects(compiler, {
    sources: selfTestSources(),
    flags,
    folder: `${program}-objects`,
  });
  return problem ?? compile(compiler, [...flags, "-o", program, ...objects]);
}

async function runVariant(compiler, name) {
  const program = path.join(buildFolder, "self-test", name);
  const problem = await compileVariant(compiler, VARIANTS[name], program);
  if (problem !== undefined) {
    console.log(`${name}: cannot compile\n${problem}`);
    return false;
  }
  const { status, signal } = spawnSync(program, { stdio: "inherit" });
  console.log(`${name}: ${status === 0 ? "passed" : `failed (${signal ?? status})`}`);
  return status === 0;
}

async function main(wanted) {
  const unknown = wanted.find((name) => !Object.hasOwn(VARIANTS, name));
  if (unknown !== undefined) {
    console.log(`self-test: no "${unknown}": there are ${Object.keys(VARIANTS).join(", ")}`);
    return false;
  }
  const compiler = findCompiler();
  if (compiler === undefined) {
    console.log("self-test: no C++ compiler (g++, c++ or clang++)");
    return false;
  }
  const passed = [];
  for (const name of wanted.length > 0 ? wanted : Object.keys(VARIANTS)) {
    passed.push(await runVariant(compiler, name));
  }
  return passed.every(Boolean);
}

process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1;
