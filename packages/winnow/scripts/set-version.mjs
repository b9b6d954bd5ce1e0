// Gives everything that tells Winnow's version another one: manifests of the packages, the lock file, tags of
// images in deploy, commands in the documents.
//
//   npm run set-version -- 1.2.3
//
// The version stands in the root's package.json; all else is made to agree with that, and a test holds it.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";

const [version = ""] = process.argv.slice(2);
if (!/^\d+\.\d+\.\d+(-\w+)?$/.test(version)) {
  console.error(`"${version}" is no version: npm run set-version -- 1.2.3`);
  process.exit(1);
}

const root = path.resolve(import.meta.dirname, "../../..");
const change = (file, make) => {
  const at = path.join(root, file);
  writeFileSync(at, make(readFileSync(at, "utf8")));
};
const changeJson = (file, make) =>
  change(file, (text) => {
    const content = JSON.parse(text);
    make(content);
    return `${JSON.stringify(content, null, 2)}\n`;
  });

const isOurs = (name) => name === "winnow" || name.startsWith("@winnow/");

function setManifest(manifest) {
  manifest.version = version;
  for (const kind of ["dependencies", "devDependencies"]) {
    for (const name of Object.keys(manifest[kind] ?? {}).filter(isOurs))
      manifest[kind][name] = version;
  }
}

const packages = readdirSync(path.join(root, "packages")).map((name) => `packages/${name}`);
for (const folder of [".", ...packages]) changeJson(`${folder}/package.json`, setManifest);
changeJson("package-lock.json", (lock) => {
  lock.version = version;
  for (const folder of ["", ...packages]) setManifest(lock.packages[folder]);
});

/** A version after what can only be ours: a tag of an image, the file of the npm package. */
const TOLD = /(newTag: |\bwinnow(?:-gpu)?:|\bwinnow-serving-|\?ref=v)\d+\.\d+\.\d+(?:-\w+)?/g;
for (const file of [
  "deploy/kubernetes/base/kustomization.yaml",
  "deploy/kubernetes/components/gpu/kustomization.yaml",
  "docs/install.md",
  "docs/kubernetes.md",
]) {
  change(file, (text) => text.replaceAll(TOLD, `$1${version}`));
}
console.log(`everything has version ${version}; CHANGELOG.md wants its heading`);
