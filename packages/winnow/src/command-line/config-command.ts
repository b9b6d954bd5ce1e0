// `winnow config`: which settings there are, and which values are in effect.

import { Command } from "commander";
import { WinnowError } from "@winnow/core";
import { processVariables } from "../process/process-settings.ts";
import { effectiveSettings, settingsText } from "../settings/effective-settings.ts";
import { settingsDocument, settingsList } from "../settings/settings-document.ts";
import type { SettingPlaces } from "../settings/settings-file.ts";
import { VARIABLES_WITHOUT_FLAG, isSecretVariable } from "./setting-variables.ts";

/** A command that serves; after parsing, it knows what its settings file has set. */
export interface PreparedCommand {
  readonly command: Command;
  readonly places: () => SettingPlaces;
}

/** Makes a new command that serves, by name. */
export type CommandSupply = Readonly<Record<string, () => PreparedCommand>>;

/** `winnow config print` and `winnow config list`. */
export function configCommand(supply: CommandSupply): Command {
  const names = Object.keys(supply);
  const print = new Command("print")
    .description(
      "print every setting that a command would start with, and where its value comes from",
    )
    .usage(`[--json] <${names.join("|")}> [its flags...]`)
    .argument("<command>", names.join(", "))
    .argument("[flags...]", "its flags; variables and --config are used, too")
    .option("--json", "machine-readable")
    .passThroughOptions()
    .exitOverride()
    .action(async (name: string, flags: readonly string[], options: { readonly json?: true }) => {
      const isJson = options.json === true || flags.includes("--json");
      const settings = await settingsInEffect(
        supply,
        name,
        flags.filter((flag) => flag !== "--json"),
      );
      process.stdout.write(
        isJson ? `${JSON.stringify(settings, undefined, 2)}\n` : settingsText(settings),
      );
    });
  const list = new Command("list")
    .description(
      "list every flag, variable, default and meaning, also those that --help leaves out",
    )
    .option("--markdown", "in the form of docs/settings.md")
    .exitOverride()
    .action(({ markdown }: { readonly markdown?: true }) => {
      const commands = names.map((name) => supply[name]!().command);
      process.stdout.write(markdown === true ? settingsDocument(commands) : settingsList(commands));
    });
  return new Command("config")
    .description("list all settings, or print the values that a command would start with")
    .enablePositionalOptions()
    .addCommand(print)
    .addCommand(list);
}

async function settingsInEffect(supply: CommandSupply, name: string, flags: readonly string[]) {
  const made = Object.hasOwn(supply, name) ? supply[name]!() : undefined;
  if (made === undefined) {
    const text = `No command "${name}" has settings: it is one of ${Object.keys(supply).join(", ")}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const { command, places } = made;
  command.exitOverride().action(() => undefined);
  await command.parseAsync(flags, { from: "user" });
  return effectiveSettings(command, places(), {
    variables: processVariables,
    names: VARIABLES_WITHOUT_FLAG,
    secret: isSecretVariable,
  });
}
