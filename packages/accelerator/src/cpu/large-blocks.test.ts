// What becomes of the memory of large arrays that nobody holds any more, in a process that has loaded the addon.

import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect, test } from "vitest";

/** MiB that a process still has after it has twice let 24 arrays of 4 MiB go, between which small ones stay. */
function leftMiB(environment: Record<string, string> = {}): number {
  const addon = path.resolve(import.meta.dirname, "../../build/release/winnow-accelerator.node");
  const script = `
    require(${JSON.stringify(addon)});
    const pins = [];
    const turn = () => {
      let arrays = [];
      for (let at = 0; at < 24; at += 1) {
        arrays.push(new Float64Array(2 ** 19).fill(1));
        pins.push(new Uint8Array(100_000).fill(1));
      }
      arrays = undefined;
      gc(); gc();
    };
    const before = process.memoryUsage.rss();
    turn();
    setTimeout(turn, 200);
    setTimeout(() => console.log((process.memoryUsage.rss() - before) / 2 ** 20), 500);
  `;
  const env = { ...process.env, ...environment };
  return Number(execFileSync(process.execPath, ["--expose-gc", "-e", script], { env }));
}

const { header } = process.report.getReport() as { header: object };
const isGlibc = "glibcVersionRuntime" in header;

test.skipIf(!isGlibc)("arrays of some MiB go back to the system, whatever was freed before", () => {
  expect(leftMiB()).toBeLessThan(30);
});

test.skipIf(!isGlibc)(
  "an environment that says how large blocks are to be treated is left in charge",
  () => {
    // As glibc does by itself.
    expect(leftMiB({ MALLOC_MMAP_THRESHOLD_: String(2 ** 25) })).toBeGreaterThan(60);
  },
);
