// Lines in colours, if the terminal has them.

import picocolors from "picocolors";
import type { Line, Tone } from "./report-lines.ts";

const PAINTS: Readonly<Record<Tone, (text: string) => string>> = {
  title: (text) => picocolors.bold(text),
  good: (text) => picocolors.green(text),
  warning: (text) => picocolors.yellow(text),
  bad: (text) => picocolors.red(text),
  dim: (text) => picocolors.dim(text),
  plain: (text) => text,
};

/** A line as a terminal shows it. */
export function paint({ text, tone }: Line): string {
  return PAINTS[tone](text);
}
