// Numbers as they are reported, and the files they go to.

import { renameSync, writeFileSync } from "node:fs";

/** The middle of a list. */
export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

/** Four digits that count. */
export const rounded = (value) => Number(Number(value).toPrecision(4));

/** Writes a text, or anything else as JSON, so that the file is never there in part. */
export function writeWhole(file, content) {
  const text = typeof content === "string" ? content : `${JSON.stringify(content, undefined, 1)}\n`;
  writeFileSync(`${file}.part`, text);
  renameSync(`${file}.part`, file);
}
