// What `--help` of every command looks like in a terminal of 80 columns, and in a wide one.

import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { createCommandLine } from "./command-line.ts";

const all = (command: Command): readonly Command[] => [command, ...command.commands.flatMap(all)];

/** The help as it is written to a terminal of so many columns. */
function helpIn(command: Command, columns: number): string {
  let written = "";
  command.configureOutput({
    getOutHelpWidth: () => columns,
    writeOut: (text) => {
      written += text;
    },
  });
  command.outputHelp();
  return written;
}

describe.each(all(createCommandLine("0.0.0")).map((command) => [command.name(), command] as const))(
  "the help of %s",
  (_name, command) => {
    test("has no line beyond 80 columns", () => {
      const lines = helpIn(command, 80).split("\n");

      expect(lines.filter((line) => line.length > 80)).toEqual([]);
    });
  },
);

test("a flag that is longer than its column has its description below it", () => {
  const root = createCommandLine("0.0.0");
  const up = root.commands.find((command) => command.name() === "up")!;

  expect(helpIn(root, 80)).toMatch(/^ {2}predict \[options\] <model> <instances>\n {28}send a/mu);
  expect(helpIn(up, 80)).toMatch(/^ {2}--workers <n> {13}worker processes/mu);
});

test("in a wide terminal all descriptions stand beside what they describe", () => {
  expect(helpIn(createCommandLine("0.0.0"), 200)).toMatch(/^ {2}predict .* {2}send a/mu);
});
