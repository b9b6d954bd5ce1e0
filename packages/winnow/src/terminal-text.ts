// Text that others wrote (names of models, ids of items, errors of a server), made safe for a terminal:
// control characters move the cursor, name the window and end lines, and direction marks reverse a line.

const CONTROLS = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Ends of lines, with the spaces after them: errors of graphs and of ONNX Runtime have several lines. */
const LINE_BREAKS = /[\r\n\u2028\u2029]\s*/g;

/** The text on one line; other characters that could control the terminal become U+FFFD. */
export function terminalLine(text: string): string {
  return text
    .replaceAll(LINE_BREAKS, " ")
    .replaceAll(CONTROLS, ({ length }) => "\ufffd".repeat(length));
}

/** The same for a text with line breaks. */
export function terminalText(text: string): string {
  return text.split("\n").map(terminalLine).join("\n");
}

/** JSON of one line that says the same, with such characters escaped. */
export function terminalJson(json: string): string {
  return json.replaceAll(CONTROLS, (character) =>
    Array.from({ length: character.length }, (_, at) => escaped(character.charCodeAt(at))).join(""),
  );
}

function escaped(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
