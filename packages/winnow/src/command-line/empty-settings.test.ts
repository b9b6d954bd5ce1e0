// Settings that are empty, as where a script's variable is not set.

import type { Command, Option } from "commander";
import { describe, expect, test } from "vitest";
import { addClientOptions } from "../command-options.ts";
import { createCommandLine } from "./command-line.ts";
import { servingCommands } from "./serving-commands.ts";

/** Texts that may be empty: nothing is less protected, and nothing else is served, than where they are left out. */
const MAY_BE_EMPTY = new Set([
  // TensorFlow Serving's, of which the empty text is the default; an empty variable is refused.
  "--ssl_config_file",
  "--model_config_file",
  "--monitoring_config_file",
  "--model_name",
  "--model_base_path",
  "--grpc_socket_path",
  // Refused later where they are needed, or a place for what is otherwise not kept.
  "--redis",
  "--redis-username",
  "--members",
  "--id",
  "--advertise",
  "--state-dir",
  "--model-cache-dir",
  "--otlp-endpoint",
  // Empty, no reload is allowed.
  "--model_reload_root",
]);

const commands = Object.entries(servingCommands).map(([name, make]) => [name, make] as const);

/** The options that take an empty text. */
function takingEmpty(command: Command): readonly string[] {
  const isTaken = ({ parseArg }: Option): boolean => {
    try {
      return parseArg?.("", undefined) === undefined || parseArg("", undefined) === "";
    } catch {
      return false;
    }
  };
  return command.options.flatMap((option) =>
    (option.required || option.optional) && isTaken(option) ? [option.long!] : [],
  );
}

describe.each(commands)("winnow %s", (_, make) => {
  test("takes an empty text only where that protects no less", () => {
    expect(takingEmpty(make()).filter((flag) => !MAY_BE_EMPTY.has(flag))).toEqual([]);
  });
});

test.each(["inspect", "demo"])("winnow %s takes no empty directory", (name) => {
  const command = createCommandLine("1.0.0", { command: name })
    .commands.find((each) => each.name() === name)!
    .exitOverride()
    .configureOutput({ writeErr: () => {} });

  expect(() => command.parse([""], { from: "user" })).toThrow(/It must name a directory/);
});

test("a command takes no empty file of authorities or keys for the router", () => {
  expect(takingEmpty(addClientOptions(servingCommands["worker"]!()))).not.toContain("--ca");
});

test.each([
  "--tls-cert",
  "--tls-client-ca",
  "--cluster-tls-ca",
  "--cluster-secret-file",
  "--worker-addresses",
  "--allowed-hosts",
  "--config",
])("an empty %s is refused with what leaving it out means", (flag) => {
  const router = servingCommands["router"]!()
    .exitOverride()
    .configureOutput({ writeErr: () => {} });

  expect(() => router.parse([flag, " "], { from: "user" })).toThrow(
    /It must .*; leave (?:it|all three) out /,
  );
});
