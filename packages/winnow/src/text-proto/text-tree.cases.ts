// Arbitrary trees and a writer that picks among all ways to write one, for round trips.

import fc from "fast-check";

/** A field without a place. */
export interface PlainField {
  readonly name: string;
  readonly value: PlainValue;
}

/** A value without a place. */
type PlainValue =
  | { readonly kind: "string" | "number" | "word"; readonly text: string }
  | { readonly kind: "message"; readonly fields: readonly PlainField[] };

const name = fc.stringMatching(/^[A-Za-z_]\w{0,8}$/);
const number = fc.oneof(
  fc.integer().map(String),
  fc.constantFrom("0x1F", "-0", "1.5", "2e3", ".5", "-1.25e-3", "017"),
);

/** Trees up to four messages deep. */
export const plainFields: fc.Arbitrary<readonly PlainField[]> = fc.letrec<{
  fields: readonly PlainField[];
  value: PlainValue;
}>((tie) => ({
  fields: fc.array(fc.record({ name, value: tie("value") }), { maxLength: 4 }),
  value: fc.oneof(
    { maxDepth: 4 },
    fc.record({ kind: fc.constant("string" as const), text: fc.string({ unit: "grapheme" }) }),
    fc.record({ kind: fc.constant("number" as const), text: number }),
    fc.record({ kind: fc.constant("word" as const), text: name }),
    fc.record({ kind: fc.constant("message" as const), fields: tie("fields") }),
  ),
})).fields;

/** Writes a tree; `pick(n)` chooses among n ways, each time it could be done in several. */
export function writeText(fields: readonly PlainField[], pick: (ways: number) => number): string {
  return fields
    .map((field) => {
      const isMessage = field.value.kind === "message";
      const colon = isMessage && pick(2) === 0 ? gap(pick) : `${gap(pick)}:${gap(pick)}`;
      const end = ["\n", " ; ", ",", "  # so much for that\n"][pick(4)]!;
      return `${field.name}${colon}${writeValue(field.value, pick)}${end}`;
    })
    .join("");
}

function gap(pick: (ways: number) => number): string {
  return ["", " ", "\n\t", ' # "comment" {\n'][pick(4)]!;
}

function writeValue(value: PlainValue, pick: (ways: number) => number): string {
  if (value.kind === "message") {
    const [open, close] = pick(2) === 0 ? ["{", "}"] : ["<", ">"];
    return `${open}${gap(pick)}${writeText(value.fields, pick)}${close}`;
  }
  if (value.kind !== "string") return value.text;
  const quote = pick(2) === 0 ? '"' : "'";
  const parts = Array.from(value.text, (character) => writeCharacter(character, { quote, pick }));
  const cut = pick(parts.length + 1);
  const halves = [parts.slice(0, cut).join(""), parts.slice(cut).join("")];
  return halves.map((half) => `${quote}${half}${quote}`).join(gap(pick));
}

interface CharacterStyle {
  readonly quote: string;
  readonly pick: (ways: number) => number;
}

function writeCharacter(character: string, { quote, pick }: CharacterStyle): string {
  const bytes = [...Buffer.from(character)];
  const codePoint = character.codePointAt(0)!;
  const octal = bytes.map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
  const hexadecimal = bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  const ways = [octal, hexadecimal, `\\U${codePoint.toString(16).padStart(8, "0")}`];
  const isPlain = character !== quote && character !== "\\" && character !== "\n";
  const way = pick(isPlain ? 6 : 3);
  return ways[way] ?? character;
}
