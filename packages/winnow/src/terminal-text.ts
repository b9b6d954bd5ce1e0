// Text that others wrote (names of models, ids of items, errors of a server) as a terminal may be given it: control
// characters move the cursor, name the window and end lines, and marks of direction turn a line round.

/** The text on one line: what could steer the terminal is shown as U+FFFD. */
export function terminalLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ({ length }) => "\ufffd".repeat(length));
}

/** The same for a text whose line breaks are meant. */
export function terminalText(text: string): string {
  return text.split("\n").map(terminalLine).join("\n");
}
