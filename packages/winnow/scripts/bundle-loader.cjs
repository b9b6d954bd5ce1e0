// Runs the files of the bundle, and keeps what V8 compiled of them: to parse and compile the same files anew
// is a fifth of the processor time of a worker's start, in three threads, and more of a short command's. It is
// copied into the bundle (bundle.mjs), as `load.js`.
//
//   main.js, compute-thread.js, …  ──▶  load.js  ──▶  main-<hash>.js, its chunks       what there is to run
//                                          │ ▲
//                                          ▼ │        written once, some seconds after the first start
//                                        cache/<kind>/<role>/<file>                  bytecode of that file
//
// Bytecode lies beside the code and is written only where the code's folder can be: who may write one may write
// the other. It is used only for the very bytes that it was made of, by the same V8 with the same flags on a processor
// with the same features: its kind. V8 checks the kind itself. Whatever is amiss with bytecode, the code is compiled
// as if it were not there.
//
// A role is an entry, and of the command line the roles of a cluster: each uses other functions of a file.

"use strict";

const { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");
const { cachedDataVersionTag, setFlagsFromString } = require("node:v8");
const vm = require("node:vm");
const { getEnvironmentData, isMainThread, setEnvironmentData } = require("node:worker_threads");
const { crc32 } = require("node:zlib");

/** Most of what a process does again and again it has done by then. */
const WRITTEN_AFTER_MS = 3000;
/** What a process says (process.emit) whose event loop never waits, so that no timer of it runs in time. */
const STARTED_EVENT = "winnow:started";
const STEP_MS = 20;
/** Kinds beside which one more is made. */
const KINDS_MAX = 8;
const HEADER_BYTES = 8;
/** Whatever the process' mask is: bytecode is code. */
const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;
/**
 * In a worker V8 optimizes later while it starts (src/process/start-tiers.ts), which V8 takes for other flags: what is
 * set at the start, and what takes it back. A thread of a worker may be started before or after that.
 */
const START_FLAGS = startFlagsOf(process.versions.v8);
const WORKER_ROLES = new Set(["worker", "compute-thread", "reader-thread"]);
/** Under which a worker's main thread tells its threads V8's mark of the flags of the start. */
const START_TAG_KEY = "winnow.start-tag";

/**
 * Under which the main thread tells the folder of its kind to the threads that it starts. What else holds for one kind
 * is kept there as well (packages/worker/src/compute/reader/kept-shapes.ts).
 */
const FOLDER_KEY = "winnow.kept-folder";

const PARAMETERS = "exports, require, module, __filename, __dirname, importModule";

/** Node 20.15 brought checksums; older ones compile at each start. */
const isKept = crc32 !== undefined;

const loaded = new Map();
/** What was compiled without bytecode that could be used. */
const compiled = [];
let cache = "";
/** Whether the files of this thread are loaded under the flags of a worker's start. */
let isAtStart = false;

function startFlagsOf(v8) {
  if (v8.startsWith("11.3.")) return ["--interrupt-budget=540672", "--interrupt-budget=67584"];
  return /^1[234]\./.test(v8) ? ["--efficiency-mode", "--no-efficiency-mode"] : undefined;
}

function load(file) {
  const known = loaded.get(file);
  if (known !== undefined) return known.exports;
  const module = { exports: {} };
  loaded.set(file, module);
  const requireFile = createRequire(file);
  const requireOne = (id) =>
    id.startsWith("./") ? load(path.join(__dirname, id)) : requireFile(id);
  requireOne.resolve = requireFile.resolve;
  const run = compile(file).runInThisContext();
  run.call(module.exports, module.exports, requireOne, module, file, __dirname, importModule);
  return module.exports;
}

/** What is not in the bundle, for its files: `import` does not work in code of which the bytecode was kept. */
const importModule = (name) => import(name);

function compile(file) {
  const bytes = readFileSync(file);
  // The bundle is ASCII (bundle.mjs), which V8 takes as it is.
  const code = `(function (${PARAMETERS}) { ${bytes.toString("latin1")}\n})`;
  if (!isKept) return new vm.Script(code, { filename: file });
  const sum = crc32(bytes);
  const cachedData = cachedOf(file, sum);
  const script = new vm.Script(code, { filename: file, cachedData });
  if (cachedData === undefined) compiled.push({ file, sum, script });
  return script;
}

/** The bytecode of a file that has this checksum; `undefined` if there is none. */
function cachedOf(file, sum) {
  try {
    const bytes = readFileSync(path.join(cache, path.basename(file)));
    const data = bytes.subarray(HEADER_BYTES);
    const isWhole = bytes.readUInt32LE(0) === sum && bytes.readUInt32LE(4) === crc32(data);
    return isWhole ? data : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Writes what V8 made of one file, at once and whole, unless another process has done so since. Where that is not
 * allowed, it does nothing.
 */
function write({ file, sum, script }) {
  if (cachedOf(file, sum) !== undefined) return;
  const to = path.join(cache, path.basename(file));
  // One name for all, so that processes that are killed here leave one draft; checksums tell what two have mixed.
  const draft = `${to}.draft`;
  try {
    const kinds = path.join(__dirname, "cache");
    mkdirSync(kinds, { recursive: true, mode: FOLDER_MODE });
    const others = readdirSync(kinds).filter((name) => name !== path.basename(path.dirname(cache)));
    if (others.length >= KINDS_MAX) return;
    mkdirSync(cache, { recursive: true, mode: FOLDER_MODE });
    const data = createCachedData(script);
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUInt32LE(sum, 0);
    header.writeUInt32LE(crc32(data), 4);
    writeFileSync(draft, Buffer.concat([header, data]), { mode: FILE_MODE });
    renameSync(draft, to);
  } catch {
    // A folder that is read-only, a full disk, or a build that replaces the folder just now.
  }
}

/** V8 takes bytecode only under the flags under which it was made. */
function createCachedData(script) {
  if (!isAtStart) return script.createCachedData();
  setFlagsFromString(START_FLAGS[0]);
  const data = script.createCachedData();
  setFlagsFromString(START_FLAGS[1]);
  return data;
}

/** One file after the other: between them the process does what else there is to do. */
function writeInSteps() {
  const one = compiled.shift();
  if (one === undefined) return;
  write(one);
  setTimeout(writeInSteps, STEP_MS).unref();
}

function writeRest() {
  for (const one of compiled.splice(0)) write(one);
}

/** Of the main thread's kind, before any role changes a flag: threads may be started before or after that. */
function folderOfKind() {
  const told = isMainThread ? undefined : getEnvironmentData(FOLDER_KEY);
  if (told !== undefined) return told;
  const kind = `${process.version}-${process.arch}-${cachedDataVersionTag().toString(16)}`;
  const folder = path.join(__dirname, "cache", kind);
  setEnvironmentData(FOLDER_KEY, folder);
  return folder;
}

/** Whether a thread of a worker begins under the flags of its start, which the main thread sets. */
function beginsAtStart(role) {
  if (role !== "worker") return cachedDataVersionTag() === getEnvironmentData(START_TAG_KEY);
  setFlagsFromString(START_FLAGS[0]);
  setEnvironmentData(START_TAG_KEY, cachedDataVersionTag());
  return true;
}

/** Runs the file of an entry, named as the entry is. */
module.exports = function run(entry, file) {
  const command = isMainThread && entry === "main" ? process.argv[2] : undefined;
  const role = command === "worker" || command === "router" ? command : entry;
  if (isKept) {
    const kind = folderOfKind();
    isAtStart = START_FLAGS !== undefined && WORKER_ROLES.has(role) && beginsAtStart(role);
    const isLate = WORKER_ROLES.has(role) && !isAtStart;
    cache = path.join(kind, isLate ? `${role}-later` : role);
    setTimeout(writeInSteps, WRITTEN_AFTER_MS).unref();
    process.once("exit", writeRest);
    process.once(STARTED_EVENT, writeRest);
  }
  return load(path.join(__dirname, file));
};
