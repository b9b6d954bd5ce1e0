// Completion scripts for shells. A script contains every command, flag and choice, so that a shell completes
// without starting Winnow; after an upgrade it has to be generated again.

import { type CompletedCommand, type CompletedFlag, withAllBelow } from "./completed-command.ts";

/** Shells for which there is a script. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** One of them. */
export type Shell = (typeof SHELLS)[number];

/** The script for a shell. */
export function completionScript(shell: Shell, root: CompletedCommand): string {
  return SCRIPTS[shell](root);
}

const SCRIPTS: Readonly<Record<Shell, (root: CompletedCommand) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** Text in single quotes, as bash, zsh and (with its own escape) fish read it. */
function quoted(text: string, shell: Shell): string {
  if (shell === "fish") return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

const pathOf = ({ path }: CompletedCommand): string => path.join(" ");

function bashScript(root: CompletedCommand): string {
  const commands = withAllBelow(root);
  const paths = commands
    .filter(({ path }) => path.length > 0)
    .map(({ path }) => `"${path.slice(0, -1).join(" ")} ${path.at(-1)}"`);
  const values = commands.flatMap((command) =>
    command.flags
      .filter(({ value }) => value !== undefined)
      .map((flag) => {
        const patterns = flag.names.map((name) => `"${pathOf(command)} ${name}"`).join("|");
        return `    ${patterns}) ${bashReply(flag.value!)}; return ;;`;
      }),
  );
  const words = commands.map((command) => {
    const flags = command.flags.flatMap(({ names }) => names).join(" ");
    const below = command.commands.map(({ path }) => path.at(-1)).join(" ");
    const reply =
      below === "" ? bashReply(command.argument) : `COMPREPLY=($(compgen -W "${below}" -- "$cur"))`;
    return [
      `    "${pathOf(command)}")`,
      `      case "$cur" in`,
      `        -*) COMPREPLY=($(compgen -W "${flags}" -- "$cur")) ;;`,
      `        *) ${reply} ;;`,
      "      esac ;;",
    ].join("\n");
  });
  return `# bash completion for winnow. Load it with: source <(winnow completion bash)

_winnow() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="" at
  COMPREPLY=()
  # --flag=value comes as three words.
  if [ "$cur" = "=" ]; then cur=""; elif [ "$prev" = "=" ]; then prev="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  for ((at = 1; at < COMP_CWORD; at++)); do
    case "$command \${COMP_WORDS[at]}" in
      ${paths.join("|")})
        command="\${command:+$command }\${COMP_WORDS[at]}" ;;
    esac
  done
  case "$command $prev" in
${values.join("\n")}
  esac
  case "$command" in
${words.join("\n")}
  esac
}

complete -F _winnow winnow
`;
}

function bashReply(value: NonNullable<CompletedFlag["value"]>): string {
  switch (value.kind) {
    case "choices": {
      return `COMPREPLY=($(compgen -W "${value.choices.join(" ")}" -- "$cur"))`;
    }
    case "directory": {
      return `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur"))`;
    }
    case "file": {
      return `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur"))`;
    }
    case "text": {
      return "COMPREPLY=()";
    }
  }
}

function zshScript(root: CompletedCommand): string {
  const functions = withAllBelow(root).map((command) => {
    const specs = command.flags.map((flag) => `    ${zshSpec(flag)}`);
    if (command.commands.length === 0) {
      const argument = `    ${quoted(`*:${zshAction(command.argument)}`, "zsh")}`;
      return `${zshName(command)}() {\n  _arguments -s -S \\\n${[...specs, argument].join(" \\\n")}\n}\n`;
    }
    const below = command.commands.map(
      ({ path, description }) => `    ${quoted(`${path.at(-1)}:${zshText(description)}`, "zsh")}`,
    );
    const calls = command.commands.map(
      (each) => `        ${each.path.at(-1)}) ${zshName(each)} ;;`,
    );
    return `${zshName(command)}() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \\
${specs.join(" \\\n")} \\
    '1: :->command' '*:: :->arguments'
  case $state in
    command)
      local -a commands=(
${below.join("\n")}
      )
      _describe 'command' commands ;;
    arguments)
      case $words[1] in
${calls.join("\n")}
      esac ;;
  esac
}
`;
  });
  return `#compdef winnow
# zsh completion for winnow. Write it to a folder of $fpath as _winnow, or: source <(winnow completion zsh)

${functions.join("\n")}
if [ "$funcstack[1]" = "_winnow" ]; then _winnow "$@"; else compdef _winnow winnow; fi
`;
}

const zshName = ({ path }: CompletedCommand): string => ["_winnow", ...path].join("_");

/** Brackets and colons end a part of a specification. */
function zshText(text: string): string {
  return text.replaceAll(/[\\:[\]]/g, String.raw`\$&`);
}

function zshSpec({ names, description, value }: CompletedFlag): string {
  const text = `[${zshText(description)}]${value === undefined ? "" : `:${zshAction(value)}`}`;
  const others = names.length > 1 ? `(${names.join(" ")})` : "";
  const specs = names.map((name) => {
    const take = value !== undefined && name.startsWith("--") ? "=" : "";
    return quoted(`${others}${name}${take}${text}`, "zsh");
  });
  return specs.join(" ");
}

function zshAction(value: NonNullable<CompletedFlag["value"]>): string {
  switch (value.kind) {
    case "choices": {
      return `value:(${value.choices.join(" ")})`;
    }
    case "directory": {
      return "directory:_files -/";
    }
    case "file": {
      return "file:_files";
    }
    case "text": {
      return "value: ";
    }
  }
}

function fishScript(root: CompletedCommand): string {
  const lines = withAllBelow(root).flatMap((command) => {
    const condition = fishCondition(command);
    const below = command.commands.map(
      ({ path, description }) =>
        `complete -c winnow -f -n ${condition} -a ${path.at(-1)} -d ${quoted(description, "fish")}`,
    );
    const flags = command.flags.map((flag) => fishFlag(flag, condition));
    return below.concat(fishArgument(command, condition), flags);
  });
  return `# fish completion for winnow. Load it with: winnow completion fish | source\n\n${lines.join("\n")}\n`;
}

/** A condition: all names of a command were typed, and none of a subcommand's. */
function fishCondition({ path, commands }: CompletedCommand): string {
  const typed = path.map((name) => `__fish_seen_subcommand_from ${name}`);
  const below = commands.map(({ path: names }) => names.at(-1)).join(" ");
  if (below !== "") typed.push(`not __fish_seen_subcommand_from ${below}`);
  return quoted(typed.join("; and "), "fish");
}

function fishArgument({ argument, commands }: CompletedCommand, condition: string): string[] {
  if (commands.length > 0 || argument.kind === "file") return [];
  const words = {
    choices: argument.kind === "choices" ? ` -a ${quoted(argument.choices.join(" "), "fish")}` : "",
    directory: " -a '(__fish_complete_directories)'",
    text: "",
  };
  return [`complete -c winnow -f -n ${condition}${words[argument.kind]}`];
}

function fishFlag({ names, description, value }: CompletedFlag, condition: string): string {
  const spelled = names.map((name) =>
    name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
  );
  const taken = {
    choices: value?.kind === "choices" ? ` -x -a ${quoted(value.choices.join(" "), "fish")}` : "",
    directory: " -x -a '(__fish_complete_directories)'",
    file: " -r -F",
    text: " -x",
    none: "",
  };
  const form = taken[value?.kind ?? "none"];
  return `complete -c winnow -n ${condition} ${spelled.join(" ")}${form} -d ${quoted(description, "fish")}`;
}
