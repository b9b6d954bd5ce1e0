// What a file of settings may say, and how its faults are told.

import { existsSync } from "node:fs";
import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { option, wholeNumber } from "../command-options.ts";
import { limitArguments, limitsOf } from "./limit-flags.ts";
import { applySettings, parseSettings, readSettings } from "./settings-file.ts";

const FILE = "winnow.yaml";
const known = ["k-max", "members", "replication", "hedge", "host"];

function command(args: readonly string[], env?: string): Command {
  const made = new Command("role")
    .addOption(option("--k-max <n>", "").argParser(wholeNumber(1, 1000)))
    .addOption(option("--replication <n>", "", env).argParser(wholeNumber(1, 16)).default(2))
    .addOption(option("--host <address>", "").default("127.0.0.1"))
    .action(() => undefined);
  return made.parse(args, { from: "user" });
}

const applied = (to: Command, text: string): ReadonlyMap<string, string> =>
  applySettings(to, parseSettings(text, FILE), { file: FILE, known });

describe("a file of settings", () => {
  test("has texts, numbers, truths, lists and values by name, each with its line", () => {
    const text = `# of all roles
host: "::1"
k-max: 500

hedge: false
members: [a@h:1, b@h:2]
model-replication:
  movies: 3
  ads: 1
`;

    expect(parseSettings(text, FILE)).toEqual([
      { name: "host", text: "::1", line: 2 },
      { name: "k-max", text: "500", line: 3 },
      { name: "hedge", text: "false", line: 5 },
      { name: "members", text: "a@h:1,b@h:2", line: 6 },
      { name: "model-replication", text: "movies=3,ads=1", line: 7 },
    ]);
  });

  test("may be empty", () => {
    expect(parseSettings("# nothing yet\n", FILE)).toEqual([]);
  });

  test.each([
    ["- k-max: 1", "line 1: a file of settings is a list of name: value"],
    ["k-max: 1\nk-max: 2", "line 2: k-max stands twice; leave one of them out"],
    ["a: 1\nb: &x 2\nc: *x", "line 3: c is to be a text, a number"],
    ["a: 1\nk-max:", "line 2: k-max is to be a text, a number"],
    ["a: [[1]]", "line 1: a is to be a text, a number"],
    ["a: 1\nb: c: 2", "line 2"],
    ["7: 1", "line 1: a setting has a name"],
    ["a: !!js/function x", "line 1"],
    ["a: { b: 1, c: 2, b: 3 }", "line 1: b stands twice; leave one of them out"],
    ["a: 1\n---\nb: 1", "line 2: the file has a second document; leave one of them out"],
  ])("with a fault names file and line: %s", (text, fault) => {
    expect(() => parseSettings(text, FILE)).toThrow(`${FILE}, ${fault}`);
  });

  test.each(["[", "{a: ", "- ", "? "])("that nests %s too deep says so", (open) => {
    const text = `a: 1\nb: ${open.repeat(10_000)}`;

    expect(() => parseSettings(text.replace("b: -", "b:\n  -"), FILE)).toThrow(
      /^winnow.yaml, line \d+: the file nests lists and maps deeper than 128 levels$/,
    );
  });

  test("with thousands of names compares each of them once, and tells a few that are unknown", () => {
    const text = Array.from({ length: 2000 }, (_, at) => `n${at}: 1\n`).join("");

    expect(() => applied(command([]), `${text}n0: 2`)).toThrow("line 2001: n0 stands twice");
    expect(() => applied(command([]), text)).toThrow(/, n15 in line 16.*, and 1984 more: winnow/);
  });

  test("that is not there says so, as a usage fault: to start again would end the same way", () => {
    expect(() => readSettings("/nowhere/winnow.yaml")).toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining(
          "Cannot read the settings of /nowhere/winnow.yaml (--config): ENOENT",
        ),
      }),
    );
  });

  test.skipIf(!existsSync("/dev/zero"))("that never ends is not read to its end", () => {
    expect(() => readSettings("/dev/zero")).toThrow("it has more than 262144 bytes");
  });
});

describe("settings of a file", () => {
  test("set what neither flag nor variable has set, and tell where they stand", () => {
    const role = command(["--k-max", "7"]);

    const places = applied(role, "k-max: 8\nreplication: 3\n");

    expect(role.opts()).toEqual({ kMax: 7, replication: 3, host: "127.0.0.1" });
    expect([...places]).toEqual([["replication", "winnow.yaml, line 2"]]);
  });

  test("of other roles are passed over; those of no role are named, all at once", () => {
    const role = command([]);

    expect(() => applied(role, "members: a@h:1")).not.toThrow();
    expect(() => applied(role, "kmax: 8\nreplication: 3\nzzzzzz: 1")).toThrow(
      "No setting of winnow.yaml is called kmax in line 1 (did you mean k-max?), zzzzzz in line 3: winnow config list",
    );
  });

  test.each(["0", "0x10", "1e3", "1.5", "many", "true"])(
    "are read as behind a flag: k-max is no %s",
    (value) => {
      expect(() => applied(command([]), `host: a\nk-max: ${value}`)).toThrow(
        `winnow.yaml, line 2: k-max is "${value}". It must be a whole number from 1 to 1000.`,
      );
    },
  );
});

describe("limits and times", () => {
  const flags = { kMax: 5, httpBodyBytesMax: 6, workerKMax: 7, hedge: false, replication: 3 };

  test("come back as the options of their owner", () => {
    expect(limitsOf(flags, "router")).toEqual({ kMax: 5, hedge: false });
    expect(limitsOf(flags, "http")).toEqual({ bodyBytesMax: 6 });
    expect(limitsOf(flags, "grpc")).toEqual({});
    expect(limitsOf(flags, "worker")).toEqual({ kMax: 7 });
  });

  test("are passed on to processes that read them", () => {
    expect(limitArguments(flags, ["router", "http", "grpc"])).toEqual([
      "--k-max=5",
      "--hedge=false",
      "--http-body-bytes-max=6",
    ]);
    expect(limitArguments(flags, ["worker"])).toEqual(["--worker-k-max=7"]);
  });
});
