// The documents keep their word: files, folders and commands that they name exist, and every command is
// told of. What a name is relative to depends on the document: see `basesOf`.

import path from "node:path";
import { describe, expect, test } from "vitest";
import { readTracked as read, trackedFiles as files } from "./tracked-files.ts";

const known = new Set(files.flatMap(withFolders));
const documents = files.filter((file) => /^(\w+|docs\/.*|packages\/[^/]+\/README)\.md$/.test(file));

/** What a build or a run writes, and what lies with somebody else. */
const NOT_KEPT =
  /^(\.gpu|dist|test\/bench\/results)\b|^(run\.sh|winnow\.json|pipeline\.yaml|experiment\.yaml)$/;
const FILE = /\.(cpp|h|js|json|md|mjs|proto|py|sh|svg|ts|yaml)$/;

/** A path and all folders on its way. */
function withFolders(file: string): string[] {
  const segments = file.split("/");
  return segments.map((_, index) => segments.slice(0, index + 1).join("/"));
}

/** Folders that a name in this line of a document may be relative to. */
function basesOf(document: string, line: string): string[] {
  const home = path.dirname(document);
  // A row about a package: names in it are relative to its sources.
  const subject = /^\| ([\w-]+) +\|/.exec(line)?.[1] ?? "";
  const isRow = document === "ARCHITECTURE.md" && known.has(`packages/${subject}`);
  const source = isRow ? [`packages/${subject}/src`] : [];
  return [".", "packages", home, path.join(home, "src"), ...source];
}

/** Whether a word in backticks means a file or a folder of this repository. */
function isPath(word: string): boolean {
  if (!/^[\w.*-]+(\/[\w.*-]+)*\/?$/.test(word) || NOT_KEPT.test(word)) return false;
  const first = word.split("/")[0] ?? "";
  const isBelowFolder = word.includes("/") && (known.has(first) || known.has(`packages/${first}`));
  return FILE.test(word) || word.endsWith("/") || isBelowFolder;
}

/** Whether there is such a file or folder; `*` stands for any part of one name. */
function isThere(word: string, bases: readonly string[]): boolean {
  const names = bases.map((base) => path.join(base, word).replace(/\/$/, ""));
  if (!word.includes("*")) return names.some((name) => known.has(name));
  const places = word.startsWith("*") ? "(.*/)?" : "";
  const ends = word.startsWith("*") ? [word] : names;
  const patterns = ends.map((end) => new RegExp(`^${places}${end.replaceAll("*", "[^/]*")}$`));
  return files.some((file) => patterns.some((pattern) => pattern.test(file)));
}

function brokenNames(document: string): string[] {
  const text = read(document).replaceAll(/^```[\s\S]*?^```/gm, "");
  return text.split("\n").flatMap((line) => {
    const words = Array.from(line.matchAll(/`([^`]+)`/g), (match) => match[1] ?? "");
    const links = Array.from(
      line.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g),
      (match) => match[1] ?? "",
    );
    const bases = basesOf(document, line);
    const brokenWords = words.filter((word) => isPath(word) && !isThere(word, bases));
    const isBroken = (to: string): boolean => !isThere(to, [path.dirname(document)]);
    return brokenWords.concat(links.filter((to) => !to.includes("://") && isBroken(to)));
  });
}

describe("documents", () => {
  test("there are some, and they name files", () => {
    const named = documents.flatMap((document) => read(document).match(/`[^`\n]+`/g) ?? []);

    expect(documents).toContain("ARCHITECTURE.md");
    expect(documents).toContain("docs/benchmarks/http.md");
    expect(named.filter((word) => isPath(word.slice(1, -1))).length).toBeGreaterThan(80);
  });

  test("every file and folder that they name exists", () => {
    const wrong = documents.flatMap((document) =>
      brokenNames(document).map((name) => `${document}: ${name}`),
    );

    expect(wrong).toEqual([]);
  });
});

describe("commands", () => {
  const manifest = JSON.parse(read("package.json")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const scripts = Object.keys(manifest.scripts);

  test("every `npm run` of a document is one", () => {
    const wrong = documents.flatMap((document) =>
      Array.from(read(document).matchAll(/npm run ([\w:-]*\w)/g), (match) => match[1] ?? "")
        .filter((name) => !scripts.includes(name))
        .map((name) => `${document}: ${name}`),
    );

    expect(wrong).toEqual([]);
  });

  test("ARCHITECTURE.md tells what each does", () => {
    const told = read("ARCHITECTURE.md");

    expect(scripts.filter((name) => !told.includes(`\`${name}\``))).toEqual([]);
  });
});
