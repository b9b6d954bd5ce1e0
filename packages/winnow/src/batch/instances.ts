// What a line of the input asks: an instance, as it was written, or nothing that could be sent. A line that is no JSON
// would spoil the body of all instances that travel with it, so it is found here.

import { excerpt } from "@winnow/core";
import { parseAnswer } from "../oracle/answer-json.ts";
import type { InputLine } from "./input-lines.ts";

/** A line that gets a line of the output. */
export type Entry =
  /** An instance: JSON on one line. */
  | { readonly kind: "instance"; readonly text: string }
  | { readonly kind: "fault"; readonly message: string };

/** What a line asks; `undefined` for an empty one. */
export function entryOf(line: InputLine, lineBytesMax: number): Entry | undefined {
  const { number, bytes } = line;
  if (bytes === undefined) {
    return { kind: "fault", message: `Line ${number} has more than ${lineBytesMax} bytes` };
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes).trim();
  } catch {
    return { kind: "fault", message: `Line ${number} is not in UTF-8` };
  }
  if (text === "") return undefined;
  if (isJson(text)) return { kind: "instance", text };
  return { kind: "fault", message: `Line ${number} is no JSON: ${excerpt(text)}` };
}

/** Whether a router reads it as one value: `NaN` and `Infinity` may stand bare in it. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return /NaN|Infinity/.test(text) && isAnswerJson(text);
  }
}

function isAnswerJson(text: string): boolean {
  try {
    parseAnswer(text);
    return true;
  } catch {
    return false;
  }
}
