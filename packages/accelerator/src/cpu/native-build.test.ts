// The build of the native scan: which flags it uses on which machine, and that without a working
// compiler it says so once and goes on without the scan; and what it compiles again.

import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadNativeAddon } from "./native-addon.ts";

interface NativeCompiler {
  readonly addonFlags: (platform: string) => string[] | undefined;
  readonly compilerNames: (environment: Record<string, string>) => string[];
  readonly shortComplaint: (complaint: string) => string;
}

const scripts = path.resolve(import.meta.dirname, "../../scripts");
const compilerModule: string = path.join(scripts, "native-compiler.mjs");
const { addonFlags, compilerNames, shortComplaint } = (await import(
  compilerModule
)) as NativeCompiler;

describe("the flags of an addon", () => {
  test("make a shared object where Node's functions are found on loading", () => {
    expect(addonFlags("linux")).toEqual(["-fvisibility=hidden", "-shared", "-s"]);
    expect(addonFlags("freebsd")).toEqual(addonFlags("linux"));
  });

  test("make a bundle on macOS, whose linker must be told to leave names open", () => {
    const flags = ["-fvisibility=hidden", "-bundle", "-undefined", "dynamic_lookup"];
    expect(addonFlags("darwin")).toEqual(flags);
  });

  test("do not exist on Windows", () => {
    expect(addonFlags("win32")).toBeUndefined();
  });
});

test("the compiler one names is tried first", () => {
  expect(compilerNames({ CXX: "clang++-16" })).toEqual(["clang++-16", "g++", "c++", "clang++"]);
  expect(compilerNames({})).toEqual(["g++", "c++", "clang++"]);
});

test("of a long complaint the end is shown", () => {
  const lines = Array.from({ length: 40 }, (_, line) => `line ${line}`);

  expect(shortComplaint("one\ntwo\n")).toBe("one\ntwo");
  expect(shortComplaint(lines.join("\n")).split("\n")).toEqual(["…", ...lines.slice(-12)]);
});

describe("a build", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "winnow-native-build-"));
    cpSync(scripts, path.join(folder, "scripts"), { recursive: true });
    mkdirSync(path.join(folder, "native", "addon"), { recursive: true });
    mkdirSync(path.join(folder, "bin"));
    writeFileSync(path.join(folder, "native", "addon", "addon.cpp"), "int main() { return 0; }\n");
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  /** Builds the folder's copy, with the folder's programs alone. */
  function build(...options: readonly string[]): {
    status: number | null;
    lines: string[];
    isBuilt: boolean;
  } {
    const script = path.join(folder, "scripts", "build-native.mjs");
    const env = { PATH: path.join(folder, "bin") };
    const { status, stdout } = spawnSync(process.execPath, [script, ...options], {
      env,
      encoding: "utf8",
    });
    const addon = path.join(folder, "build", "release", "winnow-accelerator.node");
    return { status, lines: stdout.trimEnd().split("\n"), isBuilt: existsSync(addon) };
  }

  function installCompiler(script: string): void {
    writeFileSync(path.join(folder, "bin", "g++"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }

  test.runIf(loadNativeAddon().addon !== undefined)(
    "is not needed where a prebuilt addon has the interface of the sources, and is where it has another",
    () => {
      const prebuilt = path.join(
        folder,
        "build",
        "prebuilt",
        `${process.platform}-${process.arch}`,
      );
      const root = path.resolve(scripts, "..");
      const release = path.join(root, "build", "release", "winnow-accelerator.node");
      mkdirSync(prebuilt, { recursive: true });
      cpSync(release, path.join(prebuilt, "winnow-accelerator.node"));
      const source = path.join(folder, "native", "addon", "addon.cpp");
      cpSync(path.join(root, "native", "addon", "addon.cpp"), source);

      const same = build("--unless-prebuilt");
      writeFileSync(source, readFileSync(source, "utf8").replace(/(_VERSION = )\d+/u, "$1999"));
      const other = build("--unless-prebuilt");

      expect(same.lines).toEqual([
        expect.stringMatching(/^native: the prebuilt addon for .* loads$/),
      ]);
      expect(other.lines).toEqual([expect.stringContaining("no C++ compiler")]);
    },
  );

  test("for want of a compiler says so in one line and succeeds", () => {
    const { status, lines, isBuilt } = build();

    expect(status).toBe(0);
    expect(lines).toEqual([
      "native: no C++ compiler (g++, c++ or clang++); searches will run in JavaScript",
    ]);
    expect(isBuilt).toBe(false);
  });

  test("because the compiler fails shows what it said and succeeds", () => {
    installCompiler(
      '[ "$1" = --version ] && exit 0\necho "addon.cpp:1: no such thing" >&2\nexit 1',
    );

    const { status, lines, isBuilt } = build();

    expect(status).toBe(0);
    expect(lines).toEqual([
      "native: g++ failed; searches will run in JavaScript",
      "addon.cpp:1: no such thing",
    ]);
    expect(isBuilt).toBe(false);
  });

  test("because the compiler is killed shows how it ended", () => {
    installCompiler('[ "$1" = --version ] && exit 0\nkill -9 $$');

    expect(build().lines.at(-1)).toBe("g++ ended with SIGKILL");
  });

  test("compiles a source again when it, a header, the compiler or a flag is another, and only then", () => {
    const log = path.join(folder, "compiled");
    const native = path.join(folder, "native");
    const compiled = (...options: readonly string[]): string[] => {
      writeFileSync(log, "");
      expect(build(...options).lines).toEqual(["native: built with g++"]);
      const calls = readFileSync(log, "utf8").split("\n");
      return calls.flatMap((call) => /-c \S*\/native\/(\S+)/.exec(call)?.slice(1) ?? []).toSorted();
    };
    const install = (version: string): void =>
      installCompiler(
        `[ "$1" = --version ] && echo ${version} && exit 0\necho "$@" >> ${log}\n` +
          'while [ "$1" != -o ]; do shift; done\necho made > "$2"',
      );
    install("12.2");
    writeFileSync(path.join(native, "scan.cpp"), "int scan() { return 1; }\n");
    writeFileSync(path.join(native, "scan.h"), "int scan();\n");
    const both = ["addon/addon.cpp", "scan.cpp"];

    expect(compiled()).toEqual(both);
    expect(compiled("--portable", path.join(folder, "given"))).toEqual([]);
    writeFileSync(path.join(native, "scan.cpp"), "int scan() { return 2; }\n");
    expect(compiled()).toEqual(["scan.cpp"]);
    writeFileSync(path.join(native, "scan.h"), "int scan(void);\n");
    expect(compiled()).toEqual(both);
    install("13.1");
    expect(compiled()).toEqual(both);
    const script = path.join(folder, "scripts", "native-compiler.mjs");
    writeFileSync(script, readFileSync(script, "utf8").replace('"-O3"', '"-O2"'));
    expect(compiled()).toEqual(both);
    expect(readdirSync(path.join(folder, "build", "objects"))).toHaveLength(both.length);
  });

  test("compiles all again where a kept object cannot be linked", () => {
    const objects = path.join(folder, "build", "objects");
    installCompiler(
      '[ "$1" = --version ] && exit 0\n' +
        'for each; do case "$each" in *.o) [ -e "$each" ] && read -r word < "$each" && [ "$word" = damaged ] && exit 1;; esac; done\n' +
        'while [ "$1" != -o ]; do shift; done\necho made > "$2"',
    );
    build();
    for (const name of readdirSync(objects)) writeFileSync(path.join(objects, name), "damaged\n");

    expect(build("--portable", path.join(folder, "given")).lines).toEqual([
      "native: built with g++",
    ]);
    expect(readFileSync(path.join(objects, readdirSync(objects)[0]!), "utf8")).toBe("made\n");
  });
});
