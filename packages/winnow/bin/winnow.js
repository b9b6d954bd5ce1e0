#!/usr/bin/env node
// Starts the built command. npm links a command only if its file exists at install time, and
// dist/ does not exist then; hence this file between the two.
await import("../dist/main.js");
