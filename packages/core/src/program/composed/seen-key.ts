// Redis keys of what users have seen: a pattern with places for inputs of a request, such as
// `seen:{user_id}`. Values come from clients, so a value must not be able to name a key outside its place:
//
//   - every byte of a value but letters, digits and `-_.!~*'()` is percent-encoded;
//   - before each place there is a text that ends in a character that no encoded value has, such as `:`.
//
// So the values can be read back from a key: different values give different keys, and each key begins and
// ends like the pattern.

/** A part of a pattern: a text, or the place for an input. */
export type KeyPart = { readonly text: string } | { readonly input: string };

/** Characters of a pattern, at most. */
const PATTERN_CHARACTERS_MAX = 256;
/** Prefix of the cluster's own keys. */
const OWN_PREFIX = "winnow:";
const PLACE = /\{([^{}]*)\}/;
const IN_VALUES = /[\w!%'()*.~-]$/;

/** Parses a pattern, or gives what is wrong with it. */
export function parseKeyPattern(
  pattern: string,
): { readonly parts: readonly KeyPart[] } | { readonly fault: string } {
  if (pattern.length > PATTERN_CHARACTERS_MAX) {
    return {
      fault: `has ${pattern.length} characters; at most ${PATTERN_CHARACTERS_MAX} are taken`,
    };
  }
  if (pattern.startsWith(OWN_PREFIX)) {
    return { fault: `begins with "${OWN_PREFIX}", as keys of the cluster itself do` };
  }
  // Alternates texts and names, because the separator has one group.
  const pieces = pattern.split(PLACE);
  const parts = pieces.map((piece, at): KeyPart => {
    return at % 2 === 0 ? { text: piece } : { input: piece };
  });
  if (parts.length === 1) return { fault: "has no place for an input, such as seen:{user_id}" };
  const texts = pieces.filter((_, at) => at % 2 === 0);
  if (texts.some((text) => /[{}]/.test(text))) return { fault: "has a bracket without its other" };
  if (texts.slice(0, -1).some((text) => text === "" || IN_VALUES.test(text))) {
    const why = "else a value could name keys of others";
    return { fault: `needs a character such as ":" before each place, ${why}` };
  }
  return { parts: parts.filter((part) => "input" in part || part.text !== "") };
}

/** The key with these values. */
export function keyWith(parts: readonly KeyPart[], valueOf: (input: string) => Uint8Array): string {
  return parts.map((part) => ("text" in part ? part.text : encoded(valueOf(part.input)))).join("");
}

const PLAIN: ReadonlySet<number> = new Set(
  Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()"),
);

function encoded(value: Uint8Array): string {
  let text = "";
  for (const byte of value) {
    text += PLAIN.has(byte)
      ? String.fromCodePoint(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return text;
}
