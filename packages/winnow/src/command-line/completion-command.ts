// The flags of `winnow completion`.

import { Argument, Command } from "commander";
import { completedCommand } from "../completion/completed-command.ts";
import { SHELLS, type Shell, completionScript } from "../completion/completion-script.ts";

/** `winnow completion`. */
export function completionCommand(): Command {
  const command = new Command("completion")
    .summary("print a script that completes commands and flags in a shell")
    .description(
      "print a script that completes commands and flags in a shell: source <(winnow completion bash)",
    )
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .action((shell: Shell) => {
      const root = command.parent ?? command;
      process.stdout.write(completionScript(shell, completedCommand(root)));
    });
  return command;
}
