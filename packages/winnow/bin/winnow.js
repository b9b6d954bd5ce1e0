#!/usr/bin/env node
// npm links a command only if its file exists at install time; dist/ does not, so this file does.
import "../dist/main.js";
