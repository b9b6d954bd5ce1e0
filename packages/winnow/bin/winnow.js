#!/usr/bin/env node
// Starts the built command. npm links a command only if its file exists at install time, and
// dist/ does not exist then; hence this file between the two.
//
// The bundle (scripts/bundle.mjs) loads in half the time of the modules that it is made of. It is run
// unless one of the packages was compiled after it.

import { readdirSync, statSync } from "node:fs";

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
