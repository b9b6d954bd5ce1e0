// The version of Winnow, as package.json has it.

import { readFileSync } from "node:fs";

const manifest = new URL("../package.json", import.meta.url);

/** Such as `1.2.3`; all packages have the same. */
export const winnowVersion: string = (
  JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string }
).version;
