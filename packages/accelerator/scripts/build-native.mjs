// Compiles the CPU accelerator's addon with the compiler at hand, offline: headers come from the
// package `node-api-headers`. Runs only when sources changed. Without a compiler it says so in one
// line and succeeds: the reference accelerator answers then, slowly.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import {
  FLAGS,
  addonFlags,
  addonSources,
  buildFolder,
  compile,
  compileObjects,
  findCompiler,
  headerFolder,
  nativeFiles,
  nativeFolder,
  shortComplaint,
} from "./native-compiler.mjs";

const outputFolder = path.join(buildFolder, "release");
const addonFile = path.join(outputFolder, "winnow-accelerator.node");
const stampFile = path.join(outputFolder, "stamp.txt");

/** Changes when anything the addon is made of changes. */
function stampOf(compiler, flags) {
  const hash = createHash("sha256");
  for (const file of nativeFiles()) {
    hash.update(file).update(readFileSync(path.join(nativeFolder, file)));
  }
  hash.update([...FLAGS, ...flags, process.arch, process.platform].join(" "));
  return hash.update(execFileSync(compiler, ["--version"])).digest("hex");
}

/** Compiles beside the old addon and then takes its place, as another process may have it open. */
async function build(compiler, flags) {
  const draft = `${addonFile}.${process.pid}`;
  const folder = path.join(outputFolder, `objects.${process.pid}`);
  try {
    const { objects, problem } = await compileObjects(compiler, {
      sources: addonSources(),
      flags: ["-fvisibility=hidden", `-I${headerFolder()}`],
      folder,
    });
    if (problem !== undefined) return problem;
    const unlinked = compile(compiler, [...flags, "-o", draft, ...objects]);
    if (unlinked === undefined) renameSync(draft, addonFile);
    return unlinked;
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(draft, { force: true });
  }
}

async function main() {
  const flags = addonFlags(process.platform);
  const compiler = flags && findCompiler();
  if (compiler === undefined) {
    const missing = flags ? "no C++ compiler (g++, c++ or clang++)" : "not made for this system";
    console.log(`native: ${missing}; searches will run in JavaScript`);
    return;
  }
  const stamp = stampOf(compiler, flags);
  const isBuilt = existsSync(addonFile) && existsSync(stampFile);
  if (isBuilt && readFileSync(stampFile, "utf8") === stamp) return;
  mkdirSync(outputFolder, { recursive: true });
  const problem = await build(compiler, flags);
  if (problem !== undefined) {
    rmSync(addonFile, { force: true });
    const end = shortComplaint(problem);
    console.log(`native: ${compiler} failed; searches will run in JavaScript\n${end}`);
    return;
  }
  writeFileSync(stampFile, stamp);
  console.log(`native: built with ${compiler}`);
}

await main();
