// Compiles the CPU accelerator's addon with the compiler at hand, offline: headers come from the
// package `node-api-headers`. Runs only when sources changed. Without a compiler it says so in one
// line and succeeds: the reference accelerator answers then, slowly.

import { execFileSync, spawnSync } from "node:child_process";
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
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const packageFolder = path.resolve(import.meta.dirname, "..");
const nativeFolder = path.join(packageFolder, "native");
const outputFolder = path.join(packageFolder, "build", "release");
const addonFile = path.join(outputFolder, "winnow-accelerator.node");
const stampFile = path.join(outputFolder, "stamp.txt");

const FLAGS = ["-std=c++17", "-O3", "-fPIC", "-pthread", "-fvisibility=hidden", "-DNAPI_VERSION=8"];
const LINK_FLAGS =
  process.platform === "darwin" ? ["-undefined", "dynamic_lookup", "-bundle"] : ["-shared", "-s"];

const sources = readdirSync(nativeFolder)
  .filter((file) => file.endsWith(".cpp") && !file.startsWith("self-test"))
  .toSorted();

/** The first C++ compiler that answers, or undefined. */
function findCompiler() {
  const candidates = [process.env.CXX, "g++", "c++", "clang++"].filter(Boolean);
  return candidates.find((name) => spawnSync(name, ["--version"]).status === 0);
}

/** Where node_api.h is: the package, else the Node installation. */
function headerFolder() {
  try {
    const require = createRequire(import.meta.url);
    return require("node-api-headers").include_dir;
  } catch {
    return path.resolve(path.dirname(process.execPath), "..", "include", "node");
  }
}

/** Changes when anything the addon is made of changes. */
function stampOf(compiler) {
  const hash = createHash("sha256");
  for (const file of readdirSync(nativeFolder).toSorted()) {
    hash.update(file).update(readFileSync(path.join(nativeFolder, file)));
  }
  hash.update([...FLAGS, ...LINK_FLAGS, process.arch, process.platform].join(" "));
  return hash.update(execFileSync(compiler, ["--version"])).digest("hex");
}

function compile(compiler) {
  mkdirSync(outputFolder, { recursive: true });
  const draft = `${addonFile}.${process.pid}`;
  const files = sources.map((file) => path.join(nativeFolder, file));
  const include = [`-I${headerFolder()}`];
  const result = spawnSync(compiler, [...FLAGS, ...LINK_FLAGS, ...include, "-o", draft, ...files], {
    encoding: "utf8",
  });
  if (result.status !== 0) return result.stderr;
  renameSync(draft, addonFile);
  return undefined;
}

function main() {
  const compiler = findCompiler();
  if (compiler === undefined) {
    console.log("native: no C++ compiler (g++, c++ or clang++); searches will run in JavaScript");
    return;
  }
  const stamp = stampOf(compiler);
  const isFresh = existsSync(addonFile) && existsSync(stampFile);
  if (isFresh && readFileSync(stampFile, "utf8") === stamp) return;
  const problem = compile(compiler);
  if (problem !== undefined) {
    rmSync(addonFile, { force: true });
    console.log(`native: ${compiler} failed; searches will run in JavaScript\n${problem}`);
    return;
  }
  writeFileSync(stampFile, stamp);
  console.log(`native: built with ${compiler}`);
}

main();
