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
// the other. It is used only for the very bytes that it was made of, by the same V8, in a process that began with the same
// flags on a processor with the same features: its kind. V8 checks the kind itself. Whatever is amiss with bytecode, the
// code is compiled as if it were not there.
//
// The flags that Winnow sets in a running process (src/process/v8-flags.ts) say how V8 optimizes and collects, and
// change no bytecode. V8 would not take bytecode from before they were set all the same, nor from another time: it lies here
// as if it had been made when its process began.
//
// A role is an entry, and of the command line the roles of a cluster: each uses other functions of a file.

"use strict";

const {
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");
const { cachedDataVersionTag } = require("node:v8");
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
/** With which bytecode begins, in V8's order: what V8 checks before it takes the rest. */
const HEAD_WORDS = 8;
/** Whatever the process' mask is: bytecode is code. */
const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;
/**
 * Under which the main thread tells the folder of its kind to the threads that it starts. What else holds for one kind
 * is kept there as well (packages/worker/src/compute/reader/kept-shapes.ts).
 */
const FOLDER_KEY = "winnow.kept-folder";
/** Under which it tells them bytecode of nothing, from when the process began. */
const PROBE_KEY = "winnow.kept-probe";

const PARAMETERS = "exports, require, module, __filename, __dirname, importModule";

/** Node 20.15 brought checksums; older ones compile at each start. */
const isKept = crc32 !== undefined;

const loaded = new Map();
/** What was compiled without bytecode that could be used. */
const compiled = [];
let cache = "";
/** Bytecode of nothing, made when the process began. */
let firstProbe;
/** Bytecode of nothing that was made last, and V8's mark of its flags at that time. */
let lastProbe = { tag: 0, bytes: undefined };

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
  const kept = cachedOf(file, sum);
  const cachedData = kept === undefined ? undefined : withFlags(kept, firstProbe, probe());
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
    const data = withFlags(script.createCachedData(), probe(), firstProbe);
    if (data === undefined) return;
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUInt32LE(sum, 0);
    header.writeUInt32LE(crc32(data), 4);
    writeFileSync(draft, Buffer.concat([header, data]), { mode: FILE_MODE });
    renameSync(draft, to);
  } catch {
    // A folder that is read-only, a full disk, or a build that replaces the folder just now.
    remove(draft);
  }
}

/** Gives a full disk its room back. */
function remove(file) {
  try {
    rmSync(file, { force: true });
  } catch {
    // A folder that is read-only.
  }
}

/** Bytecode of nothing, made under the flags of this moment. */
function probe() {
  const tag = cachedDataVersionTag();
  if (lastProbe.tag !== tag) lastProbe = { tag, bytes: new vm.Script("").createCachedData() };
  return lastProbe.bytes;
}

/**
 * Bytecode from the time of one probe, as V8 takes it at the time of another: one word of its head stands for all flags,
 * the only one in which the heads of the probes differ. `undefined` if they differ in more.
 */
function withFlags(data, from, to) {
  const words = Array.from({ length: HEAD_WORDS }, (_, word) => 4 * word);
  const [at, ...more] = words.filter((word) => from.readInt32LE(word) !== to.readInt32LE(word));
  if (at === undefined) return data;
  if (more.length > 0) return undefined;
  data.writeInt32LE(to.readInt32LE(at), at);
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

/** The folder of this process' kind. */
function folderOfKind() {
  const told = isMainThread ? undefined : getEnvironmentData(FOLDER_KEY);
  if (told !== undefined) {
    firstProbe = Buffer.from(getEnvironmentData(PROBE_KEY));
    return told;
  }
  const kind = `${process.version}-${process.arch}-${cachedDataVersionTag().toString(16)}`;
  const folder = path.join(__dirname, "cache", kind);
  firstProbe = probe();
  setEnvironmentData(FOLDER_KEY, folder);
  setEnvironmentData(PROBE_KEY, firstProbe);
  return folder;
}

/** Runs the file of an entry, named as the entry is. */
module.exports = function run(entry, file) {
  const command = isMainThread && entry === "main" ? process.argv[2] : undefined;
  const role = command === "worker" || command === "router" ? command : entry;
  if (isKept) {
    cache = path.join(folderOfKind(), role);
    setTimeout(writeInSteps, WRITTEN_AFTER_MS).unref();
    process.once("exit", writeRest);
    process.once(STARTED_EVENT, writeRest);
  }
  return load(path.join(__dirname, file));
};
