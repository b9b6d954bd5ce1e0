#!/usr/bin/env node
// Starts the built command. npm links a command only if its file exists at install time, and
// dist/ does not exist then; hence this file between the two.
//
// The bundle (scripts/bundle.mjs) loads in half the time of the modules that it is made of. It is run
// unless one of the packages was compiled after it.

import { readdirSync, statSync } from "node:fs";
import { setFlagsFromString } from "node:v8";

// V8 allocates what a line of code makes in the old generation if most of what it made before lived long.
// While a router starts or is slow its requests do, and from then on those of a fast one would stay until a
// full collection, and keep younger ones that they point to: twice the time of all minor collections.
setFlagsFromString("--no-allocation-site-pretenuring");

// V8 counts arrays outside of its heap when it decides about a full collection. Beside a small heap that is
// soon: a pipeline's candidates and their vectors are a megabyte or two, and of a router with 20 MB of live objects
// every seventh such request waited for one. A heap may grow to four times what was alive, which V8 itself
// allows at most to whoever allocates much.
setFlagsFromString("--heap-growing-percent=300");

const packages = new URL("../../", import.meta.url);
const bundle = new URL("../dist/bundle/main.js", import.meta.url);

function isBundleFresh() {
  const madeMs = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs;
  if (madeMs === undefined) return false;
  return readdirSync(packages).every((name) => {
    const compiled = new URL(`${name}/dist/tsconfig.tsbuildinfo`, packages);
    const compiledMs = statSync(compiled, { throwIfNoEntry: false })?.mtimeMs;
    return compiledMs === undefined || compiledMs <= madeMs;
  });
}

await import(isBundleFresh() ? bundle.href : "../dist/main.js");
