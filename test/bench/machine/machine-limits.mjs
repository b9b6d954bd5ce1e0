// What this machine can do at most, measured by `machine-limits.cpp`: compiled for the processor it
// runs on; without a compiler the native scan would not exist either.

import { execFileSync } from "node:child_process";
import path from "node:path";
import process from "node:process";

/** Compiles one of this folder's programs into another folder and gives its path. */
export function compileProgram(folder, name) {
  const program = path.join(folder, name);
  const source = path.join(import.meta.dirname, `${name}.cpp`);
  const flags = ["-O3", "-march=native", "-pthread"];
  execFileSync(process.env.CXX ?? "g++", [...flags, "-o", program, source]);
  return program;
}

/** Compiles the program into a folder; the function it gives measures, which takes about a second. */
export function compileLimits(folder, threads) {
  const program = compileProgram(folder, "machine-limits");
  return () => JSON.parse(execFileSync(program, [String(threads)], { encoding: "utf8" }));
}

/** Of several measurements the best of each limit: whatever disturbs only lowers them. */
export function bestLimits(all) {
  const names = Object.keys(all[0]);
  return Object.fromEntries(
    names.map((name) => {
      const values = all.map((limits) => limits[name]).filter((value) => value !== null);
      return [name, values.length === 0 ? undefined : Math.max(...values)];
    }),
  );
}
