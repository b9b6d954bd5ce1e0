// Keys that stand twice in an object of JSON. JSON.parse keeps the last value of them without a word, so they are
// looked for in the text: an object without one has as many keys as are written. That is a count, which costs little
// beside the parsing; only a text that seems to have more is read key by key.

const QUOTE = 34;
const SPACE = 32;
const BACKSLASH = 92;

/**
 * How many keys are written in JSON, or more: a string that begins with a colon looks like a key that ends there.
 */
export function keysWritten(json: string): number {
  let keys = 0;
  for (let colon = json.indexOf(":"); colon >= 0; colon = json.indexOf(":", colon + 1)) {
    let before = colon - 1;
    while (json.charCodeAt(before) <= SPACE) before -= 1;
    if (json.charCodeAt(before) === QUOTE && !isEscaped(json, before)) keys += 1;
  }
  return keys;
}

/** Whether an odd number of backslashes stands before a character: then it belongs to a string. */
function isEscaped(json: string, at: number): boolean {
  let before = at - 1;
  while (json.charCodeAt(before) === BACKSLASH) before -= 1;
  return (at - before) % 2 === 0;
}

/** A string, with the colon that makes it a key, or a bracket around objects. */
const TOKENS = /"(?:[^"\\]+|\\.)*"(\s*:)?|[{}]/g;

/** The first key that stands twice in an object of JSON that can be parsed, its inner objects aside. */
export function repeatedKey(json: string): string | undefined {
  const seen = new Set<string>();
  let depth = 0;
  for (const [token, colon] of json.matchAll(TOKENS)) {
    if (token === "{") depth += 1;
    else if (token === "}") depth -= 1;
    else if (colon !== undefined && depth === 1) {
      const key = JSON.parse(token.slice(0, -colon.length)) as string;
      if (seen.has(key)) return key;
      seen.add(key);
    }
  }
  return undefined;
}
