// Compiles the CPU accelerator's addon with the compiler at hand, offline: headers come from the
// package `node-api-headers`. Runs only when sources changed. Without a compiler it says so in one
// line and succeeds: the reference accelerator answers then, slowly.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import process from "node:process";
import {
  FLAGS,
  buildFolder,
  compile,
  findCompiler,
  headerFolder,
  nativeFolder,
  sourcesWhere,
} from "./native-compiler.mjs";

const outputFolder = path.join(buildFolder, "release");
const addonFile = path.join(outputFolder, "winnow-accelerator.node");
const stampFile = path.join(outputFolder, "stamp.txt");

const ADDON_FLAGS = [
  "-fvisibility=hidden",
  ...(process.platform === "darwin"
    ? ["-undefined", "dynamic_lookup", "-bundle"]
    : ["-shared", "-s"]),
];

/** Changes when anything the addon is made of changes. */
function stampOf(compiler) {
  const hash = createHash("sha256");
  for (const file of readdirSync(nativeFolder).toSorted()) {
    hash.update(file).update(readFileSync(path.join(nativeFolder, file)));
  }
  hash.update([...FLAGS, ...ADDON_FLAGS, process.arch, process.platform].join(" "));
  return hash.update(execFileSync(compiler, ["--version"])).digest("hex");
}

/** Compiles beside the old addon and then takes its place, as another process may have it open. */
function build(compiler) {
  mkdirSync(outputFolder, { recursive: true });
  const draft = `${addonFile}.${process.pid}`;
  const sources = sourcesWhere((file) => !file.startsWith("self-test"));
  const args = [...ADDON_FLAGS, `-I${headerFolder()}`, "-o", draft, ...sources];
  const problem = compile(compiler, args);
  if (problem === undefined) renameSync(draft, addonFile);
  return problem;
}

function main() {
  const compiler = findCompiler();
  if (compiler === undefined) {
    console.log("native: no C++ compiler (g++, c++ or clang++); searches will run in JavaScript");
    return;
  }
  const stamp = stampOf(compiler);
  const isBuilt = existsSync(addonFile) && existsSync(stampFile);
  if (isBuilt && readFileSync(stampFile, "utf8") === stamp) return;
  const problem = build(compiler);
  if (problem !== undefined) {
    rmSync(addonFile, { force: true });
    console.log(`native: ${compiler} failed; searches will run in JavaScript\n${problem}`);
    return;
  }
  writeFileSync(stampFile, stamp);
  console.log(`native: built with ${compiler}`);
}

main();
