// Compiles the CPU accelerator's addon with the compiler at hand, offline: headers come from the
// package `node-api-headers`. Runs only when sources changed, and compiles those. Without a compiler it says so in one
// line and succeeds: the reference accelerator answers then, slowly.
//
//   build-native.mjs                     for this machine
//   build-native.mjs --unless-prebuilt   only if the addon that the npm package brings does not load, or is of other
//                                        sources than these
//   build-native.mjs --portable FOLDER   to be given to others, into FOLDER/<platform>-<architecture>;
//                                        fails where it cannot

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
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";
import {
  FLAGS,
  addonFlags,
  buildFolder,
  compile,
  compileObjects,
  findCompiler,
  headerFolder,
  keptObjects,
  nativeFiles,
  nativeFolder,
  objectFolder,
  shortComplaint,
} from "./native-compiler.mjs";
import { scriptOptions } from "./script-options.mjs";

const options = scriptOptions({
  "unless-prebuilt": { type: "boolean" },
  portable: { type: "string" },
});

const ADDON = "winnow-accelerator.node";
const machine = `${process.platform}-${process.arch}`;
const outputFolder =
  options.portable === undefined
    ? path.join(buildFolder, "release")
    : path.join(path.resolve(options.portable), machine);
const addonFile = path.join(outputFolder, ADDON);
const stampFile = path.join(outputFolder, "stamp.txt");

/** Flags of the linker: a library that others get has its C++ library inside, as theirs may be older. */
function linkerFlags() {
  const flags = addonFlags(process.platform);
  const isPortable = options.portable !== undefined && process.platform === "linux";
  return flags && isPortable ? [...flags, "-static-libstdc++", "-static-libgcc"] : flags;
}

/** Whether the addon of the npm package loads here, and its functions take what those of these sources take. */
function hasPrebuilt() {
  try {
    const file = path.join(buildFolder, "prebuilt", machine, ADDON);
    const { interfaceVersion } = createRequire(import.meta.url)(file);
    const source = readFileSync(path.join(nativeFolder, "addon/addon.cpp"), "utf8");
    return source.includes(`INTERFACE_VERSION = ${interfaceVersion};`);
  } catch {
    return false;
  }
}

/** Says why there is no addon: a failure only if one was to be made for others. */
function giveUp(problem) {
  if (options.portable !== undefined) process.exitCode = 1;
  console.log(`native: ${problem.split("\n")[0]}; searches will run in JavaScript`);
  const rest = problem.split("\n").slice(1).join("\n");
  if (rest !== "") console.log(rest);
}

/** Changes when anything the addon is made of changes. */
function stampOf(compiler, flags) {
  const hash = createHash("sha256");
  for (const file of nativeFiles()) {
    hash.update(file).update(readFileSync(path.join(nativeFolder, file)));
  }
  hash.update([...FLAGS, ...flags, process.arch, process.platform].join(" "));
  return hash.update(execFileSync(compiler, ["--version"])).digest("hex");
}

/** Compiles what no kept object is of, links beside the old addon and then takes its place: others may have it open. */
async function build(compiler, flags) {
  const draft = `${addonFile}.${process.pid}`;
  // Beside the kept objects, which are renamed: the addon may go to another file system.
  const folder = `${objectFolder}.${process.pid}`;
  const objectFlags = ["-fvisibility=hidden"];
  const objects = keptObjects(compiler, objectFlags);
  const sources = [...objects.keys()].filter((source) => !existsSync(objects.get(source)));
  try {
    const made = await compileObjects(compiler, {
      sources,
      flags: [...objectFlags, `-I${headerFolder()}`],
      folder,
    });
    if (made.problem !== undefined) return made.problem;
    mkdirSync(objectFolder, { recursive: true });
    for (const [at, source] of sources.entries()) renameSync(made.objects[at], objects.get(source));
    const unlinked = compile(compiler, [...flags, "-o", draft, ...objects.values()]);
    if (unlinked !== undefined) {
      // A kept object may be damaged: all are compiled then, once.
      removeOthers(new Set());
      return sources.length < objects.size ? await build(compiler, flags) : unlinked;
    }
    renameSync(draft, addonFile);
    removeOthers(new Set(objects.values()));
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(draft, { force: true });
  }
}

/** Removes the kept objects that are none of these. */
function removeOthers(objects) {
  for (const name of readdirSync(objectFolder)) {
    const file = path.join(objectFolder, name);
    if (!objects.has(file)) rmSync(file, { force: true });
  }
}

async function main() {
  if (options["unless-prebuilt"] && hasPrebuilt()) {
    console.log(`native: the prebuilt addon for ${machine} loads`);
    return;
  }
  const flags = linkerFlags();
  const compiler = flags && findCompiler();
  if (compiler === undefined) {
    giveUp(flags ? "no C++ compiler (g++, c++ or clang++)" : "not made for this system");
    return;
  }
  const stamp = stampOf(compiler, flags);
  const isBuilt = existsSync(addonFile) && existsSync(stampFile);
  if (isBuilt && readFileSync(stampFile, "utf8") === stamp) return;
  mkdirSync(outputFolder, { recursive: true });
  const problem = await build(compiler, flags);
  if (problem !== undefined) {
    rmSync(addonFile, { force: true });
    giveUp(`${compiler} failed\n${shortComplaint(problem)}`);
    return;
  }
  writeFileSync(stampFile, stamp);
  console.log(`native: built with ${compiler}`);
}

await main();
