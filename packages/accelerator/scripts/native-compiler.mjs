// The C++ compiler at hand and how it is called; shared by the build and the native tests.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import path from "node:path";
import process from "node:process";

const packageFolder = path.resolve(import.meta.dirname, "..");

/** Where the C++ sources are, in folders; includes are relative to it. */
export const nativeFolder = path.join(packageFolder, "native");

/** Where everything compiled goes. */
export const buildFolder = path.join(packageFolder, "build");

/** Where the addon's object files are kept, under names that tell what they are made of. */
export const objectFolder = path.join(buildFolder, "objects");

/** Flags of every compilation. */
export const FLAGS = ["-std=c++17", "-O3", "-fPIC", "-pthread", "-DNAPI_VERSION=8"];

/** The last lines of a complaint that are worth showing. */
const COMPLAINT_LINES = 12;

/**
 * Flags that make an addon of a system's object files; undefined where none can be made. What Node
 * offers an addon is found when it is loaded: linkers of macOS must be told so.
 */
export function addonFlags(platform) {
  if (platform === "win32") return undefined;
  const linking =
    platform === "darwin" ? ["-bundle", "-undefined", "dynamic_lookup"] : ["-shared", "-s"];
  return ["-fvisibility=hidden", ...linking];
}

/** Compilers to try, in this order. */
export function compilerNames(environment) {
  return [environment.CXX, "g++", "c++", "clang++"].filter(Boolean);
}

/** The first C++ compiler that answers, or undefined. */
export function findCompiler() {
  const names = compilerNames(process.env);
  return names.find((name) => spawnSync(name, ["--version"]).status === 0);
}

/** The end of what a compiler said: the error, not all that led to it. */
export function shortComplaint(complaint) {
  const lines = complaint.trimEnd().split("\n");
  if (lines.length <= COMPLAINT_LINES) return lines.join("\n");
  return ["…", ...lines.slice(-COMPLAINT_LINES)].join("\n");
}

/** All C++ files as paths relative to `nativeFolder`, such as `search/search.cpp`, in a fixed order. */
export function nativeFiles() {
  const files = readdirSync(nativeFolder, { encoding: "utf8", recursive: true });
  return files.filter((file) => /\.(cpp|h)$/.test(file)).toSorted();
}

/** Source files of the addon, as paths relative to `nativeFolder`. */
export function addonSources() {
  return nativeFiles().filter((file) => file.endsWith(".cpp") && !file.startsWith("test/"));
}

/** Either of them has the entry point of a program: one runs the self-test, one serves libFuzzer. */
const ENTRY_POINTS = new Set(["test/self-test-main.cpp", "test/self-test-fuzz.cpp"]);

/** Source files of the self-test with one of its entry points, relative to `nativeFolder`. */
export function selfTestSources(entryPoint = "test/self-test-main.cpp") {
  const sources = nativeFiles().filter(
    (file) => file.endsWith(".cpp") && !file.startsWith("addon/"),
  );
  return sources.filter((file) => file === entryPoint || !ENTRY_POINTS.has(file));
}

/** The object file that `compileObjects` makes of a source, a path relative to `nativeFolder`. */
export function objectFile(folder, source) {
  return path.join(folder, `${source.replaceAll("/", "-")}.o`);
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

/** What an addon includes of Node. */
const NODE_HEADERS = ["node_api.h", "node_api_types.h", "js_native_api.h", "js_native_api_types.h"];

/**
 * Each source of the addon with the object file that is kept of it. Its name is a digest of the source, its headers,
 * the compiler and the flags, so that a file that is there need not be compiled again, wherever it was made.
 */
export function keptObjects(compiler, flags) {
  const shared = createHash("sha256").update(JSON.stringify([...FLAGS, ...flags]));
  shared.update(`${process.arch} ${process.platform} `);
  shared.update(execFileSync(compiler, ["--version"]));
  for (const header of nativeFiles().filter((file) => /^(?!test\/).*\.h$/.test(file))) {
    shared.update(`${header}\n`).update(readFileSync(path.join(nativeFolder, header)));
  }
  for (const header of NODE_HEADERS.map((name) => path.join(headerFolder(), name))) {
    if (existsSync(header)) shared.update(readFileSync(header));
  }
  const nameOf = (source) => {
    const own = shared.copy().update(`${source}\n`);
    return `${own.update(readFileSync(path.join(nativeFolder, source))).digest("hex")}.o`;
  };
  return new Map(addonSources().map((source) => [source, path.join(objectFolder, nameOf(source))]));
}

/** Compiles; gives the compiler's complaints, or undefined. */
export function compile(compiler, args) {
  const result = spawnSync(compiler, [...FLAGS, ...args], { encoding: "utf8" });
  return result.status === 0 ? undefined : complaintOf(compiler, result);
}

/**
 * Compiles each source on its own, on all processors; gives the object files or complaints. Sources are
 * relative to `root`, which is `nativeFolder` or a copy of it.
 */
export async function compileObjects(compiler, { sources, root = nativeFolder, flags, folder }) {
  mkdirSync(folder, { recursive: true });
  const waiting = [...sources];
  const objects = sources.map((source) => objectFile(folder, source));
  const complaints = [];
  async function work() {
    for (let source = waiting.shift(); source !== undefined; source = waiting.shift()) {
      const input = ["-I", root, "-c", path.join(root, source)];
      const args = [...FLAGS, ...flags, ...input, "-o", objectFile(folder, source)];
      const complaint = await complaintFrom(compiler, args);
      if (complaint !== undefined) complaints.push(complaint);
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return complaints.length > 0 ? { problem: complaints.join("\n") } : { objects };
}

function complaintFrom(compiler, args) {
  return new Promise((resolve) => {
    const child = spawn(compiler, args, { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    child.on("error", (error) => resolve(error.message));
    child.on("close", (status, signal) => {
      resolve(status === 0 ? undefined : complaintOf(compiler, { stderr, signal, status }));
    });
  });
}

/** What it said, or at least how it ended: a compiler that was killed says nothing. */
function complaintOf(compiler, /** @type {any} */ { stderr, signal, status, error }) {
  if (stderr) return stderr;
  return error?.message ?? `${compiler} ended with ${signal ?? status}`;
}
