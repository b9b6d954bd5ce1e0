// Makes the npm package: everything of Winnow that runs, without sources or tests, as one tarball.
//
//   npm-package.mjs [--out FOLDER] [--prebuilds FOLDER] [--repository URL]
//
//   packages/winnow/dist/bundle, bin     all workspaces and most of their dependencies, joined by `build:bundle`
//   packages/console/dist/page           the console
//   packages/accelerator/build/prebuilt  the native scan: <platform>-<architecture>, from --prebuilds, else this machine's
//   packages/accelerator/native, scripts its sources, for machines where no prebuilt one loads
//   deploy/kubernetes                    the manifests
//
// Folders keep the places that they have in the repository, so that the bundle finds them as it does there.
// Nothing of it has to run while it is installed: scripts may be off (--ignore-scripts).

import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../accelerator/scripts/script-options.mjs";
import { EXTERNAL_PACKAGES } from "./bundler.mjs";

/** The name on npm; `winnow` belongs to somebody else there. The command is `winnow` all the same. */
const PUBLISHED_NAME = "winnow-serving";

/** Asked for by few commands through `require`, so not in the bundle; and what compiles the native scan. */
const REQUIRED_PACKAGES = ["csv-parse", "node-api-headers", "yaml"];

const root = path.resolve(import.meta.dirname, "../../..");
const options = scriptOptions({
  out: { type: "string" },
  prebuilds: { type: "string" },
  repository: { type: "string" },
});
const out = path.resolve(options.out ?? path.join(root, "build/npm"));
const stage = path.join(out, "package");

const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const workspaces = readdirSync(path.join(root, "packages")).map((name) =>
  readJson(path.join(root, "packages", name, "package.json")),
);

/** What is copied, by its place in the repository. */
const PARTS = [
  "packages/winnow/bin",
  "packages/winnow/dist/bundle",
  "packages/console/dist/page",
  "packages/accelerator/native",
  "packages/accelerator/scripts/build-native.mjs",
  "packages/accelerator/scripts/native-compiler.mjs",
  "packages/accelerator/scripts/script-options.mjs",
  "deploy/kubernetes",
  "CHANGELOG.md",
  "LICENSE",
  "README.md",
];

/** The addon's self-test, what debuggers read, and what this machine's Node compiled. */
const LEFT_OUT = /\/native\/test\b|\.map$|\/bundle\/cache$/;

function copyParts() {
  for (const part of PARTS) {
    const from = path.join(root, part);
    if (!existsSync(from)) throw new Error(`${part} is not there: npm run build first`);
    cpSync(from, path.join(stage, part), {
      recursive: true,
      filter: (file) => !LEFT_OUT.test(file),
    });
  }
}

/** The native scan for other machines, or for ones like this. */
function addPrebuilds() {
  const to = path.join(stage, "packages/accelerator/build/prebuilt");
  const made = path.join(root, "packages/accelerator/build/prebuilt");
  if (options.prebuilds === undefined) {
    const script = path.join(root, "packages/accelerator/scripts/build-native.mjs");
    execFileSync(process.execPath, [script, "--portable", made], { stdio: "inherit" });
  }
  const from = path.resolve(options.prebuilds ?? made);
  cpSync(from, to, { recursive: true, filter: (file) => !file.endsWith("stamp.txt") });
}

/** The exact version of a dependency, as some workspace has it. */
function versionOf(name) {
  const manifest = workspaces.find(({ dependencies = {} }) => name in dependencies);
  if (manifest === undefined) throw new Error(`No workspace depends on ${name}`);
  return manifest.dependencies[name];
}

function writeManifests() {
  const winnow = workspaces.find(({ name }) => name === "winnow");
  const optional = workspaces.flatMap((manifest) =>
    Object.entries(manifest.peerDependencies ?? {}),
  );
  const peers = new Map(optional);
  const needed = [...EXTERNAL_PACKAGES, ...REQUIRED_PACKAGES].filter((name) => !peers.has(name));
  write("package.json", {
    name: PUBLISHED_NAME,
    version: winnow.version,
    description: readJson(path.join(root, "package.json")).description,
    license: winnow.license,
    // Provenance is believed only for the repository that the manifest names.
    ...(options.repository === undefined
      ? {}
      : { repository: { type: "git", url: `git+${options.repository}.git` } }),
    type: "module",
    engines: winnow.engines,
    bin: { winnow: "packages/winnow/bin/winnow.js" },
    scripts: {
      install: "node packages/accelerator/scripts/build-native.mjs --unless-prebuilt",
      "build:native": "node packages/accelerator/scripts/build-native.mjs",
    },
    dependencies: Object.fromEntries(needed.toSorted().map((name) => [name, versionOf(name)])),
    peerDependencies: Object.fromEntries(peers),
    peerDependenciesMeta: Object.fromEntries(
      [...peers.keys()].map((name) => [name, { optional: true }]),
    ),
    publishConfig: { access: "public" },
  });
  const { name, version, type } = winnow;
  write("packages/winnow/package.json", { name, version, private: true, type });
}

function write(file, content) {
  writeFileSync(path.join(stage, file), `${JSON.stringify(content, null, 2)}\n`);
}

/** Folders of packages that were joined: the bundle's comments name them; the console's page has none. */
function joinedPackages() {
  const bundle = path.join(stage, "packages/winnow/dist/bundle");
  const folders = readdirSync(bundle).flatMap((file) => {
    const code = readFileSync(path.join(bundle, file), "utf8");
    const comments = code.matchAll(
      /^\/\/ (?:#region )?(.*\bnode_modules\/(?:@[^/\n]+\/)?[^/\n]+)\//gm,
    );
    return Array.from(comments, ([, folder]) => folder);
  });
  const page = workspaces.find(({ name }) => name === "@winnow/console").devDependencies;
  const all = [...folders, ...Object.keys(page).map((name) => `node_modules/${name}`)];
  return [...new Set(all)].toSorted();
}

/** The licence of each, as its authors ask of those who pass their work on. */
function writeNotices() {
  const notices = joinedPackages().map((folder) => {
    const at = path.join(root, folder);
    const { name, version, license } = readJson(path.join(at, "package.json"));
    const texts = readdirSync(at).filter((file) => /^(licen[cs]e|notice|copying)\b/i.test(file));
    const bodies = texts.map((file) => readFileSync(path.join(at, file), "utf8").trim());
    return [`${name} ${version} (${license})`, ...bodies].join("\n\n");
  });
  if (notices.length < 20) throw new Error("The bundle names too few packages: was it minified?");
  const line = `\n\n${"-".repeat(80)}\n\n`;
  const opening = "Winnow's bundle contains the packages below, each under its own licence.";
  writeFileSync(
    path.join(stage, "THIRD-PARTY-NOTICES.txt"),
    `${[opening, ...notices].join(line)}\n`,
  );
}

rmSync(stage, { recursive: true, force: true });
mkdirSync(stage, { recursive: true });
copyParts();
addPrebuilds();
writeManifests();
writeNotices();
const packed = execFileSync(
  "npm",
  ["pack", "--json", "--ignore-scripts", "--pack-destination", out],
  {
    cwd: stage,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  },
);
const [{ filename, size, unpackedSize, entryCount }] = Object.values(JSON.parse(packed));
console.log(JSON.stringify({ tarball: path.join(out, filename), size, unpackedSize, entryCount }));
