// Runs a TypeScript file in a process of its own: the argument is its path.

import { register } from "node:module";
import process from "node:process";
import { pathToFileURL } from "node:url";

register("./typescript-hooks.mjs", import.meta.url);
await import(pathToFileURL(process.argv[2]).href);
