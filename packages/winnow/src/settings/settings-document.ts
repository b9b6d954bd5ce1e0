// docs/settings.md, and the output of `winnow config list`: every flag of the commands that serve, its
// variable, its default, who reads it and what it is. Both are made from the command line itself, so they
// cannot disagree with it.

import type { Command, Option } from "commander";
import { limitDefaults, textOf } from "./effective-settings.ts";
import { settingNameOf } from "./settings-file.ts";

/** One setting, as several commands may declare it. */
interface ListedSetting {
  readonly option: Option;
  readonly name: string;
  readonly commands: readonly string[];
  readonly fallback: string;
}

const HEAD = `# Settings

Every setting of \`winnow up\`, \`serve\`, \`router\` and \`worker\`. Each has a flag, most a variable, and each may stand
in the file of \`--config\` (\`WINNOW_CONFIG\`) under the flag's name without its dashes:

\`\`\`yaml
replication: 3
k-max: 500
rest_api_timeout_in_ms: 2000
members: [w0@10.0.0.5:7600, w1@10.0.0.6:7600]
model-replication: { movies: 3 }
\`\`\`

A flag takes precedence over a variable, a variable over the file, the file over the default. One file may serve all
roles: a role ignores settings that only others read. A process does not start with a name in its file that is no
setting, or a \`WINNOW_*\` variable that nothing reads; the error names the line and the nearest name. \`winnow config
print router --k-max 500\` shows the values in effect and where each came from, but no secrets; the console and \`GET
/v1/cluster\` show those of a running router.

\`winnow config list --markdown\` prints the tables, and a test compares them with the command line. Bytes and
milliseconds are whole numbers. "both" means \`winnow up\` and \`winnow serve\`, which pass a setting on to the roles.
`;

const SECTIONS: readonly (readonly [title: string, text: string, test: RegExp])[] = [
  [
    "Limits and times of HTTP",
    "Names begin with `http-`. `rest_api_timeout_in_ms`, which bounds a request, stands above.",
    /^http-/,
  ],
  ["Limits and times of gRPC", "Names begin with `grpc-`.", /^grpc-(?!port$)/],
  ["Limits and times of a worker", "Names begin with `worker-`.", /^worker-(?!addresses$)/],
];

/** All settings, each once, in order of their names. */
function listed(commands: readonly Command[]): ListedSetting[] {
  const found = new Map<string, { option: Option; commands: string[]; fallbacks: string[] }>();
  for (const command of commands) {
    for (const option of command.options) {
      const name = option.long?.slice(2);
      if (name === undefined) continue;
      const entry = found.get(name) ?? { option, commands: [], fallbacks: [] };
      found.set(name, entry);
      entry.commands.push(command.name());
      entry.fallbacks.push(fallbackOf(option, name));
    }
  }
  return Array.from(found, ([name, { option, commands: of, fallbacks }]) => ({
    option,
    name,
    commands: of,
    fallback: [...new Set(fallbacks)].filter((each) => each !== "").join(" or "),
  })).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function fallbackOf(option: Option, name: string): string {
  if (option.defaultValueDescription !== undefined) return option.defaultValueDescription;
  return textOf(option.defaultValue ?? limitDefaults.get(name)) ?? "";
}

/** The page or, for `isPlain`, one line for each setting. */
export function settingsDocument(commands: readonly Command[]): string {
  const settings = listed(commands);
  const limits = new Set(limitDefaults.keys());
  const sectionOf = ({ name }: ListedSetting): string | undefined =>
    limits.has(name) ? SECTIONS.find(([, , test]) => test.test(name))?.[0] : undefined;
  const flags = settings.filter(({ name }) => !limits.has(name));
  const router = settings.filter((each) => limits.has(each.name) && sectionOf(each) === undefined);
  const blocks = [
    `## Flags\n\n${table(flags)}`,
    "## Limits and times of a router\n\nFor requests over HTTP and gRPC alike, for its connections to workers, and for what waits or is refused.\n\n" +
      table(router),
    ...SECTIONS.map(
      ([title, text]) =>
        `## ${title}\n\n${text}\n\n${table(settings.filter((each) => sectionOf(each) === title))}`,
    ),
  ];
  return `${HEAD}\n${blocks.join("\n\n")}\n`;
}

function table(settings: readonly ListedSetting[]): string {
  const rows = settings.map(({ option, name, commands, fallback }) =>
    [
      `\`${flagText(option)}\``,
      option.envVar === undefined ? "" : `\`${option.envVar}\``,
      fallback === "" ? "" : `\`${fallback}\``,
      readersOf(commands, settingNameOf(option) === undefined ? "" : name),
      option.description.replaceAll("|", String.raw`\|`).replaceAll("<", "&lt;"),
    ].join(" | "),
  );
  const head =
    "| flag | variable | default | read by | what it is |\n| --- | --- | --- | --- | --- |";
  return `${head}\n${rows.map((row) => `| ${row} |`).join("\n")}`;
}

function flagText({ flags }: Option): string {
  return flags.replace(/^-\w, /, "");
}

function readersOf(commands: readonly string[], name: string): string {
  const roles = commands.filter((command) => command === "router" || command === "worker");
  const local = commands.filter((command) => command === "up" || command === "serve");
  if (name === "") return commands.join(", ");
  return [...roles, ...(local.length === 2 ? ["both"] : local)].join(", ");
}

/** One line a setting: flag, variable, default, what it is. */
export function settingsList(commands: readonly Command[]): string {
  const lines = listed(commands).map(({ option, fallback }) => {
    const about = [option.envVar, fallback === "" ? undefined : `default ${fallback}`];
    const known = about.filter((part) => part !== undefined).join(", ");
    return `${flagText(option)}${known === "" ? "" : `  (${known})`}\n    ${option.description}\n`;
  });
  return lines.join("");
}
