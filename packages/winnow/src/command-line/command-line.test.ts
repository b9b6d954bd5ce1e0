// Which commands a command line declares.

import { expect, test } from "vitest";

import { createCommandLine } from "./command-line.ts";

const namesFor = (command?: string): readonly string[] =>
  createCommandLine("0.0.0", { command }).commands.map((each) => each.name());

test("a command that serves is declared alone, since each worker of a machine would pay for the others", () => {
  expect(namesFor("worker")).toEqual(["worker"]);
});

test.each([undefined, "status", "toString", "no-command"])("for %s all are declared", (command) => {
  expect(namesFor(command)).toEqual(expect.arrayContaining(["up", "worker", "status", "bench"]));
});
