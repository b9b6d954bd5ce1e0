// Text that others wrote (names of models, ids of items, errors of a server), made safe for a terminal:
// control characters move the cursor, name the window and end lines, and direction marks reverse a line.

/** The text on one line; characters that could control the terminal become U+FFFD. */
export function terminalLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ({ length }) => "\ufffd".repeat(length));
}

/** The same for a text with line breaks. */
export function terminalText(text: string): string {
  return text.split("\n").map(terminalLine).join("\n");
}
