// Packs what a bare x86-64 Linux machine with a GPU and its driver needs to run the GPU tests and the
// benchmark: no Node.js, no network, no root there. Written to .gpu/ (53 MB): an archive with
// this Node, the compiled code, the tests and the packages they need; the Vulkan loader as Debian
// packages, where apt-get is here; and run.sh. Needs an installed, built project with webgpu.
//
//   node packages/accelerator/scripts/pack-for-gpu.mjs [--out .gpu] [--no-loader] [--list]
//   there: bash .gpu/run.sh all --minutes 9

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { scriptOptions } from "./script-options.mjs";

const root = fileURLToPath(new URL("../../..", import.meta.url));
/** What the tests and the benchmark import; webgpu is packed for one platform. */
const NEEDED = ["vitest", "fast-check", "webgpu"];
/** The tests' configuration and what it names. */
const TEST_SET_UP = [
  "vitest.config",
  "longest-first",
  "test-seed",
  "temporary-folder",
  "plain-output",
  "property-seed",
  "patient-waits",
];
const PROJECT = [
  "package.json",
  ...TEST_SET_UP.map((name) => `test/${name}.ts`),
  ...["accelerator", "core"].flatMap((name) =>
    ["package.json", "src", "dist"].map((part) => `packages/${name}/${part}`),
  ),
  "packages/accelerator/scripts",
];
const LOADER = [
  "libvulkan1",
  "libegl1",
  "libglvnd0",
  "libopengl0",
  "libgl1",
  "libglx0",
  "libgles2",
];
const UNUSED =
  /(\.map|\.d\.[cm]?ts|\.md)$|webgpu\/dist\/(?!linux-x64)|\/node_modules\/\.|\.bench\.ts$/;

/** The folder of a package as Node finds it from another folder; `undefined` if it is not installed. */
function folderOf(name, from) {
  for (let at = from; at.startsWith(root) || `${at}/` === root; at = path.dirname(at)) {
    const folder = path.join(at, "node_modules", name);
    if (existsSync(path.join(folder, "package.json"))) return folder;
  }
  return undefined;
}

/** What a package asks for, each with whether it cannot do without. */
function dependenciesOf(folder) {
  const manifest = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  const named = (field) => Object.keys(manifest[field] ?? {});
  const isOptional = (name) => manifest.peerDependenciesMeta?.[name]?.optional === true;
  return [
    ...named("dependencies").map((name) => [name, folder, true]),
    ...named("optionalDependencies").map((name) => [name, folder, false]),
    ...named("peerDependencies").flatMap((name) =>
      isOptional(name) ? [] : [[name, folder, true]],
    ),
  ];
}

/** Folders of these packages and of all they depend on. */
function installedPackages(names) {
  const found = new Set();
  const waiting = names.map((name) => [name, root, true]);
  for (const [name, from, isNeeded] of waiting) {
    const folder = folderOf(name, from);
    if (folder === undefined && isNeeded) throw new Error(`${name} is not installed`);
    if (folder === undefined || found.has(folder)) continue;
    found.add(folder);
    waiting.push(...dependenciesOf(folder));
  }
  return [...found].map((folder) => path.relative(root, folder));
}

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: "inherit", ...options });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} ended with status ${status}`);
}

function pack(entries, out) {
  const stage = mkdtempSync(path.join(tmpdir(), "winnow-gpu-"));
  try {
    for (const entry of entries) {
      const filter = (source) => !UNUSED.test(source);
      cpSync(path.join(root, entry), path.join(stage, entry), { recursive: true, filter });
    }
    mkdirSync(path.join(stage, "node_modules/@winnow"), { recursive: true });
    cpSync(process.execPath, path.join(stage, "node"));
    const native = path.join(stage, "node_modules/webgpu/dist/linux-x64/dawn.node");
    for (const file of [path.join(stage, "node"), native]) spawnSync("strip", ["-s", file]);
    mkdirSync(out, { recursive: true });
    // A link in the archive would need one on the other side: the package itself is small.
    const core = path.join(stage, "node_modules/@winnow/core");
    cpSync(path.join(stage, "packages/core"), core, { recursive: true });
    const archive = path.resolve(out, "winnow-gpu.tar.gz");
    // gzip is on every machine that has tar; xz is not.
    run("tar", ["-C", stage, "-I", "gzip -9", "-cf", archive, "."]);
  } finally {
    rmSync(stage, { recursive: true });
  }
  cpSync(fileURLToPath(new URL("run-on-gpu.sh", import.meta.url)), path.join(out, "run.sh"));
}

const argument = scriptOptions({
  out: { type: "string", default: path.join(root, ".gpu") },
  "no-loader": { type: "boolean", default: false },
  list: { type: "boolean", default: false },
});
const entries = [...PROJECT, ...installedPackages(NEEDED)];
const absent = entries.filter((entry) => !existsSync(path.join(root, entry)));
if (absent.length > 0) throw new Error(`not there (npm run build?): ${absent.join(", ")}`);
if (argument.list) {
  console.log(entries.join("\n"));
} else {
  pack(entries, argument.out);
  if (!argument["no-loader"]) {
    // As root, apt-get would read as another user, who may not write here.
    run("apt-get", ["download", "-qq", "-o", "APT::Sandbox::User=root", ...LOADER], {
      cwd: argument.out,
    });
  }
  console.log(`packed ${path.relative(process.cwd(), argument.out)}; there: bash run.sh all`);
}
