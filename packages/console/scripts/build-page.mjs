// Makes the page that a router serves at /console/: its modules, with preact and uPlot, in one script, and the
// style sheets in one. Nothing is left to do, and nothing to fetch from elsewhere, at run time.
//
//   dist/main.js, preact, uplot ──▶ dist/page/console.js
//   page/console.css, uplot     ──▶ dist/page/console.css        page/index.html ──▶ dist/page/index.html
//
// Where the bundler does not load, it says so in one line and succeeds: everything but the page runs without.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { bundleInto } from "../../winnow/scripts/bundler.mjs";

const home = path.resolve(import.meta.dirname, "..");
const page = path.join(home, "dist/page");
const require = createRequire(import.meta.url);

await bundleInto(page, "No page at /console/", async (rolldown, draft) => {
  const made = await rolldown({ input: path.join(home, "dist/main.js"), platform: "browser" });
  await made.write({ file: path.join(draft, "console.js"), format: "esm", minify: true });
  await made.close();
  const chart = path.join(path.dirname(require.resolve("uplot")), "uPlot.min.css");
  const own = readFileSync(path.join(home, "page/console.css"), "utf8");
  mkdirSync(draft, { recursive: true });
  writeFileSync(path.join(draft, "console.css"), `${readFileSync(chart, "utf8")}\n${own}`);
  writeFileSync(path.join(draft, "index.html"), readFileSync(path.join(home, "page/index.html")));
});
