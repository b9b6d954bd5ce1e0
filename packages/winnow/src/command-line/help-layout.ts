// How `--help` is laid out where the longest flag leaves too little room for descriptions, as it does in a terminal of 80
// columns: commander would print them unbroken, and the terminal would break them anywhere.

import { type Command, Help } from "commander";

/** Columns of flags and commands beside which a description stands; longer ones have it below them. */
const TERM_COLUMNS = 24;
const INDENT = 2;
const GAP = 2;

/** An item of the list, in commander's layout where that leaves room. */
function formatItem(
  this: Help,
  ...[term, termWidth, description, helper]: Parameters<Help["formatItem"]>
): string {
  const width = helper.helpWidth ?? 80;
  if (description === "" || width - termWidth - INDENT - GAP >= helper.minWidthToWrap) {
    return Help.prototype.formatItem.call(this, term, termWidth, description, helper);
  }
  const start = INDENT + TERM_COLUMNS + GAP;
  const lines = helper.boxWrap(description, width - start).split("\n");
  const indented = lines.map((line) => `${" ".repeat(start)}${line}`).join("\n");
  const head = `${" ".repeat(INDENT)}${term}`;
  const isBeside = helper.displayWidth(term) <= TERM_COLUMNS;
  return isBeside ? `${head.padEnd(start)}${indented.slice(start)}` : `${head}\n${indented}`;
}

/** Lays out the help of a command and of those below it. */
export function layOutHelp(command: Command): Command {
  command.configureHelp({ formatItem });
  command.commands.forEach(layOutHelp);
  return command;
}
