// The options of a script that is run by hand. Its first comment is its manual: `--help` prints that
// with the options and their defaults; an option that does not exist is answered with a hint at it. The file lies
// here because it is shipped with the scripts that compile the native scan and measure GPUs.

import { readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";

/** The leading comment of a script, without its marks. */
function manualOf(script) {
  const lines = readFileSync(script, "utf8").split("\n");
  const end = lines.findIndex((line) => !line.startsWith("//"));
  return lines.slice(0, end).map((line) => line.replace(/^\/\/ ?/u, ""));
}

function describe([name, { type, default: value }]) {
  if (type === "boolean") return `  --${name}`;
  return `  --${name} <…>${value === undefined || value === "" ? "" : `  (${value})`}`;
}

/**
 * The values given on the command line, as `parseArgs` reads them; `manual` replaces what `--help` prints. Ends the process after `--help`
 * (status 0) and for an option that does not exist or lacks its value (status 2).
 * @returns {any} an object of strings, and of booleans for options of that type
 */
export function scriptOptions(options, manual) {
  const help = { type: "boolean", default: false };
  try {
    /** @type {{ values: any }} */
    const { values } = parseArgs({ options: { ...options, help } });
    if (!values.help) return values;
  } catch (error) {
    process.stderr.write(`${error.message}\nTry --help\n`);
    process.exit(2);
  }
  const list = Object.entries(options).map(describe);
  const made = [...manualOf(process.argv[1]), "", "Options:", ...list].join("\n");
  process.stdout.write(`${manual ?? made}\n`);
  process.exit(0);
}
