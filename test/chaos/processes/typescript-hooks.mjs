// Hooks of Node's module loader: TypeScript files lose their types. Packages are imported as anybody imports them,
// from `dist/`, which chaos has compiled for the processes it breaks. A vite server that transforms all
// their sources costs each of chaos' processes five seconds of processor time, this half a second.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transform } from "rolldown/utils";

/** The hook that reads modules. */
export async function load(url, context, next) {
  if (!url.endsWith(".ts")) return next(url, context);
  const file = fileURLToPath(url);
  const { code, errors } = await transform(file, await readFile(file, "utf8"), { tsconfig: false });
  if (errors.length > 0) throw new SyntaxError(`${file}: ${errors[0].message}`);
  return { format: "module", source: code, shortCircuit: true };
}
