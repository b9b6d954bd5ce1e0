// The C++ compiler at hand and how it is called; shared by the build and the native self-test.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const packageFolder = path.resolve(import.meta.dirname, "..");

/** Where the C++ sources are. */
export const nativeFolder = path.join(packageFolder, "native");

/** Where everything compiled goes. */
export const buildFolder = path.join(packageFolder, "build");

/** Flags of every compilation. */
export const FLAGS = ["-std=c++17", "-O3", "-fPIC", "-pthread", "-DNAPI_VERSION=8"];

/** The first C++ compiler that answers, or undefined. */
export function findCompiler() {
  const candidates = [process.env.CXX, "g++", "c++", "clang++"].filter(Boolean);
  return candidates.find((name) => spawnSync(name, ["--version"]).status === 0);
}

/** Source files whose name passes the test, as full paths. */
export function sourcesWhere(isWanted) {
  const files = readdirSync(nativeFolder).filter((file) => file.endsWith(".cpp") && isWanted(file));
  return files.toSorted().map((file) => path.join(nativeFolder, file));
}

/** Where node_api.h is: the package, else the Node installation. */
export function headerFolder() {
  try {
    const require = createRequire(import.meta.url);
    return require("node-api-headers").include_dir;
  } catch {
    return path.resolve(path.dirname(process.execPath), "..", "include", "node");
  }
}

/** Compiles; gives the compiler's complaints, or undefined. */
export function compile(compiler, args) {
  const result = spawnSync(compiler, [...FLAGS, ...args], { encoding: "utf8" });
  return result.status === 0 ? undefined : result.stderr;
}
