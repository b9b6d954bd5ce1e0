// Compiles and runs the native self-test: plain, then under the address and undefined-behaviour
// sanitizers, then under the thread sanitizer. `npm run test:native -- thread` runs one of them.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { buildFolder, compile, findCompiler, sourcesWhere } from "./native-compiler.mjs";

const VARIANTS = {
  plain: [],
  address: ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
  thread: ["-O1", "-g", "-fsanitize=thread"],
};

function runVariant(compiler, name) {
  const folder = path.join(buildFolder, "self-test");
  mkdirSync(folder, { recursive: true });
  const program = path.join(folder, name);
  const sources = sourcesWhere(
    (file) => !file.startsWith("addon") && file !== "self-test-fuzz.cpp",
  );
  const problem = compile(compiler, [...VARIANTS[name], "-o", program, ...sources]);
  if (problem !== undefined) {
    console.log(`${name}: cannot compile\n${problem}`);
    return false;
  }
  const { status, signal } = spawnSync(program, { stdio: "inherit" });
  console.log(`${name}: ${status === 0 ? "passed" : `failed (${signal ?? status})`}`);
  return status === 0;
}

const compiler = findCompiler();
if (compiler === undefined) {
  console.log("self-test: no C++ compiler (g++, c++ or clang++)");
  process.exit(1);
}
const wanted = process.argv.slice(2);
const names = wanted.length > 0 ? wanted : Object.keys(VARIANTS);
const passed = names.map((name) => runVariant(compiler, name));
process.exitCode = passed.every(Boolean) ? 0 : 1;
