// Completion in real shells: what bash offers for every command and flag, what fish offers, and that zsh takes
// its script. Shells that are not installed are left out, by name.

import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { createCommandLine } from "../command-line/command-line.ts";
import { completedCommand, withAllBelow } from "./completed-command.ts";
import { SHELLS, completionScript } from "./completion-script.ts";

const root = completedCommand(createCommandLine("0.0.0"));
const commands = withAllBelow(root);
const directory = temporaryDirectory();
mkdirSync(path.join(directory, "models"));
writeFileSync(path.join(directory, "models.conf"), "");
for (const shell of SHELLS) {
  writeFileSync(path.join(directory, `script.${shell}`), completionScript(shell, root));
}

function run(shell: string, script: string): string {
  const { status, stdout, stderr } = spawnSync(shell, ["-c", script], {
    cwd: directory,
    encoding: "utf8",
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

const isThere = (shell: string): boolean => spawnSync(shell, ["-c", "exit 0"]).status === 0;

/** What bash offers for the last word of each line. */
function offeredByBash(lines: readonly (readonly string[])[]): string[][] {
  const asked = lines.map((words) => `offer winnow ${words.map((word) => `'${word}'`).join(" ")}`);
  const offer =
    'offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _winnow; echo "${COMPREPLY[*]}"; }';
  const script = ["source ./script.bash", offer, ...asked].join("\n");
  return run("bash", script)
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split(" ").filter((word) => word !== ""));
}

describe("bash", () => {
  test("completes every command and every flag of each", () => {
    const offered = offeredByBash(
      commands.flatMap(({ path: names }) => [
        [...names, ""],
        [...names, "-"],
      ]),
    );
    for (const [at, command] of commands.entries()) {
      const below = command.commands.map(({ path: names }) => names.at(-1)!);
      const flags = command.flags.flatMap(({ names }) => names);
      expect(offered[2 * at]).toEqual(expect.arrayContaining(below));
      expect(offered[2 * at + 1]).toEqual(flags);
    }
    expect(commands.length).toBeGreaterThan(15);
  });

  test.each([
    ["begun commands", ["st"], ["status"]],
    ["commands of commands", ["keys", ""], ["create"]],
    ["flags after others", ["up", "--workers", "3", "--accel"], ["--accelerator"]],
    ["choices", ["worker", "--accelerator", ""], ["cpu", "gpu", "reference"]],
    ["choices after =", ["worker", "--accelerator", "=", "g"], ["gpu"]],
    ["arguments that are choices", ["completion", "f"], ["fish"]],
    ["directories", ["up", "--models", "mod"], ["models"]],
    ["files", ["up", "--model_config_file", "mod"], ["models", "models.conf"]],
    ["nothing for a number", ["up", "--workers", ""], []],
  ])("completes %s", (_what, words, offered) => {
    expect(offeredByBash([words])[0]?.toSorted()).toEqual(offered);
  });
});

describe("other shells", () => {
  test.runIf(isThere("fish"))(
    "fish offers commands, flags with their descriptions, and choices",
    () => {
      const ask = (line: string): string => `complete -C "${line}"; echo`;
      const lines = ["winnow keys ", "winnow up --accele", "winnow up --accelerator "];
      const offered = run("fish", ["source script.fish", ...lines.map(ask)].join("\n"));
      expect(offered).toMatch(/^create\tmake a key/m);
      expect(offered).toMatch(/^--accelerator\t\S/m);
      expect(offered).toMatch(/^gpu\t/m);
    },
  );

  test.runIf(isThere("zsh"))("zsh takes the script as winnow's completion", () => {
    const script =
      "autoload -Uz compinit && compinit -u -D && source ./script.zsh && echo $_comps[winnow]";
    expect(run("zsh", script)).toBe("_winnow\n");
    expect(run("zsh", "zsh -n script.zsh")).toBe("");
  });
});
