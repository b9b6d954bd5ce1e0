// Joins what a process of Winnow loads into few files: about 500 modules, its dependencies' included, are
// looked up, opened and compiled one by one otherwise, which is half of the processor time of a start.
// `bin/winnow.js` runs what is made here while nothing it is made of is newer, else the modules.
//
//   packages/*/dist, node_modules ──▶ packages/winnow/dist/bundle/   main.js, one file per thread or
//                                                                    process, and what they share
//
// The files are CommonJS: of modules Node 20 cannot keep what V8 compiled (bundle-loader.cjs).
//
// Where the bundler does not load, it says so in one line and succeeds: everything runs without.

import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { EXTERNAL_PACKAGES, bundleInto } from "./bundler.mjs";

const packages = path.resolve(import.meta.dirname, "../..");
const bundle = path.join(packages, "winnow/dist/bundle");

/** What processes and threads begin with, by the name they are started by. */
const ENTRIES = {
  main: "winnow/dist/main.js",
  "compute-thread": "worker/dist/compute/compute-thread.js",
  "reader-thread": "worker/dist/compute/reader-thread.js",
  "range-thread": "model/dist/object-store/range-thread.js",
  "dense-process": "accelerator/dist/dense/dense-process.js",
  "parser-thread": "router/dist/http/predict/parser-thread.js",
  "text-thread": "router/dist/program/text-thread.js",
  "survey-process": "accelerator/dist/gpu/survey-process.js",
};

/** Modules that look for files beside them: what they ask for, and where it is from the bundle. */
const BESIDE = new Map([
  ["winnow/dist/version.js", ["../package.json", "../../package.json"]],
  ["winnow/dist/console-files.js", ["../../console/dist/page/", "../../../console/dist/page/"]],
  [
    "winnow/dist/command-line/k8s-command.js",
    ["../../../../deploy/kubernetes/", "../../../../deploy/kubernetes/"],
  ],
  ["winnow/dist/command-line/serving-commands.js", ["../../bin/winnow.js", "../../bin/winnow.js"]],
  ["accelerator/dist/cpu/native-addon.js", ["../../build/", "../../../accelerator/build/"]],
  // Entries, which lie beside them here as well, and packages.
  ["model/dist/attributes/csv-items.js", undefined],
  ["model/dist/pipeline-directory/yaml-fields.js", undefined],
  ["winnow/dist/settings/settings-file.js", undefined],
  ["model/dist/object-store/range-reader.js", undefined],
  ["worker/dist/compute/compute-start.js", undefined],
  ["worker/dist/compute/compute-thread.js", undefined],
  ["router/dist/http/predict/parser-threads.js", undefined],
  ["router/dist/program/text-threads.js", undefined],
  ["accelerator/dist/dense/process-start.js", undefined],
  ["accelerator/dist/dense/onnx-runtime.js", undefined],
  ["accelerator/dist/dense/onnx-version.js", undefined],
  ["accelerator/dist/gpu/survey-start.js", undefined],
]);

const besidePlugin = {
  name: "files-beside-modules",
  transform(code, id) {
    if (!id.startsWith(packages) || !code.includes("import.meta.url")) return undefined;
    const name = path.relative(packages, id).replaceAll(path.sep, "/");
    if (!BESIDE.has(name)) throw new Error(`${name} uses import.meta.url: add it to BESIDE`);
    const [from, to] = BESIDE.get(name) ?? [];
    if (from === undefined) return undefined;
    if (!code.includes(`"${from}"`)) throw new Error(`${name} does not ask for "${from}"`);
    return code.replace(`"${from}"`, `"${to}"`);
  },
};

/** Code that V8 has kept cannot import: the loader does it, for what is not in the bundle. */
const importPlugin = {
  name: "imports-by-the-loader",
  renderChunk: (code) =>
    code.replaceAll(/^(?!\s*(?:\*|\/\/|\/\*)).*\bimport\(.*$/gm, (line) =>
      line.replaceAll(/\bimport\(/g, "importModule("),
    ),
};

/** A backslash before a letter that is escaped here would be taken for an escaped backslash. */
const ESCAPED_LETTER = /(?<!\\)(?:\\\\)*\\[^\0-\u007F]/;

/**
 * The code with escapes for letters beyond ASCII: one of them, in a comment even, makes V8 keep a whole file in two bytes
 * a letter, and decode it letter by letter.
 */
function inAscii(code, fileName) {
  if (ESCAPED_LETTER.test(code)) throw new Error(`${fileName} has an escaped letter beyond ASCII`);
  return code.replaceAll(
    /[^\0-\u007F]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

await bundleInto(bundle, "Not bundled, so processes start slower", async (rolldown, draft) => {
  const made = await rolldown({
    input: Object.fromEntries(
      Object.entries(ENTRIES).map(([name, file]) => [name, path.join(packages, file)]),
    ),
    platform: "node",
    external: EXTERNAL_PACKAGES,
    plugins: [besidePlugin, importPlugin],
    onLog: (level, log) => {
      if (level === "warn" && log.code === "UNRESOLVED_IMPORT") throw new Error(log.message);
    },
  });
  const names = { entryFileNames: "[name]-[hash].js", chunkFileNames: "[name]-[hash].js" };
  const { output } = await made.write({ dir: draft, format: "cjs", ...names });
  await made.close();
  copyFileSync(path.join(import.meta.dirname, "bundle-loader.cjs"), path.join(draft, "load.js"));
  writeFileSync(path.join(draft, "package.json"), '{ "type": "commonjs" }\n');
  for (const { isEntry, name, fileName } of output) {
    const file = path.join(draft, fileName);
    writeFileSync(file, inAscii(readFileSync(file, "utf8"), fileName));
    if (!isEntry) continue;
    const call = `require("./load.js")(${JSON.stringify(name)}, ${JSON.stringify(fileName)});\n`;
    writeFileSync(path.join(draft, `${name}.js`), call);
  }
});
