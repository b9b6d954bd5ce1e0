// Runs a TypeScript file in a process of its own: the argument is its path.

import process from "node:process";
import { loadSources } from "../../simulation/source-loading.mjs";

const { close } = await loadSources(process.argv[2]);
await close();
