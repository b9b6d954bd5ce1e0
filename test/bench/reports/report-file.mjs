// Figures inside a text that explains them: a new run replaces what stands between two marks and
// keeps the rest.

import { existsSync, readFileSync, writeFileSync } from "node:fs";

const MARKS = ["<!-- figures -->", "<!-- end of figures -->"];

/** Puts Markdown between the marks of a text; makes a text of it alone where there is none. */
export function writeFigures(file, markdown) {
  const [begin, end] = MARKS;
  const text = existsSync(file) ? readFileSync(file, "utf8") : `${begin}\n${end}\n`;
  const before = text.slice(0, text.indexOf(begin) + begin.length);
  const after = text.slice(text.indexOf(end));
  writeFileSync(file, `${before}\n\n${markdown}\n\n${after}`);
}
