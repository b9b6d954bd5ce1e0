#!/usr/bin/env node
// Starts the built command. npm links a command only if its file exists at install time, and
// dist/ does not exist then; hence this file between the two. It is CommonJS (package.json beside it): Node's
// loader of modules would take some 10 ms of each start.
//
// The bundle (scripts/bundle.mjs) loads in half the time of the modules that it is made of. It is run
// unless one of the packages was compiled after it.

"use strict";

const { readdirSync, statSync } = require("node:fs");
const path = require("node:path");

const packages = path.join(__dirname, "../..");
const bundle = path.join(__dirname, "../dist/bundle/main.js");

const changedMs = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs;

function isBundleFresh() {
  const madeMs = changedMs(bundle);
  if (madeMs === undefined) return false;
  return readdirSync(packages).every((name) => {
    const compiledMs = changedMs(path.join(packages, name, "dist/tsconfig.tsbuildinfo"));
    return compiledMs === undefined || compiledMs <= madeMs;
  });
}

if (isBundleFresh()) require(bundle);
else void import("../dist/main.js");
