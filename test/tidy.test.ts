// The repository checks itself: the rules that no linter knows. Each test collects every offender
// as "path: what is wrong", so one run shows all there is to mend.

import path from "node:path";
import { describe, expect, test } from "vitest";
import { LONG_TESTS } from "./longest-first.ts";
import { readTracked as read, trackedFiles as files } from "./tracked-files.ts";

/** What each package may import; ARCHITECTURE.md draws the same arrows. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  model: ["core"],
  "model-writer": ["core", "model"],
  accelerator: ["core"],
  cluster: ["core"],
  worker: ["core", "model", "accelerator", "cluster"],
  router: ["core", "accelerator", "cluster"],
  console: ["router"],
  winnow: ["core", "model", "model-writer", "accelerator", "cluster", "worker", "router"],
};
/** What tests of every package may import besides. */
const TEST_LAYERS: readonly string[] = ["model-writer"];

/** The glossary's "not" words that have no other honest use in an identifier. */
const RETIRED_WORDS = new Set(["epoch", "epochs", "shard", "shards", "sharded"]);
const EMPTY_NAMES = /(^|-)(utils?|helpers?|common|misc|types|managers?)(-|$)/;
const KEBAB_CASE = /^[a-z0-9]+(-[a-z0-9]+)*$/;

const isTest = (file: string): boolean =>
  /\.(test|cases|bench)\.ts$|\/(doubles|fixtures)\//.test(file);
const code = files.filter((file) => /^(packages\/[^/]+\/src|test)\/.*\.ts$/.test(file));
const written = code.filter((file) => !file.includes("/generated/"));
const sources = written.filter((file) => file.startsWith("packages/") && !isTest(file));
const packageOf = (file: string): string => file.split("/")[1] ?? "";
const packageName = (layer: string): string => (layer === "winnow" ? layer : `@winnow/${layer}`);

/** Every faulty file with its faults. */
function offenders(of: readonly string[], faultsIn: (file: string) => Iterable<string>): string[] {
  return of.flatMap((file) => Array.from(faultsIn(file), (fault) => `${file}: ${fault}`));
}

/** What a file imports, statically or not. */
function importsOf(file: string): string[] {
  const pattern = /(?:^|\s)(?:from|import)\s*\(?\s*"([^"]+)"/g;
  return Array.from(read(file).matchAll(pattern), (match) => match[1] ?? "");
}

/** Whether a file of a package may import `specifier`; packages from elsewhere are knip's matter. */
function isImportAllowed(file: string, specifier: string): boolean {
  if (specifier.startsWith(".")) {
    const target = path.join(path.dirname(file), specifier);
    const home = `packages/${packageOf(file)}/src/`;
    return target.startsWith(home) || (isTest(file) && target.startsWith("test/"));
  }
  const ours = specifier === "winnow" || /^(@winnow|winnow)\//.test(specifier);
  const allowed = [...(LAYERS[packageOf(file)] ?? []), ...(isTest(file) ? TEST_LAYERS : [])];
  return !ours || allowed.map(packageName).includes(specifier);
}

type Imports = ReadonlyMap<string, ReadonlySet<string>>;

/** Which of a folder's files and folders import which of their neighbours, by folder. */
function importsByFolder(of: readonly string[]): Map<string, Map<string, Set<string>>> {
  const folders = new Map<string, Map<string, Set<string>>>();
  for (const file of of) {
    for (const specifier of importsOf(file).filter((each) => each.startsWith("."))) {
      const from = file.split("/");
      const to = path.join(path.dirname(file), specifier).split("/");
      const at = from.findIndex((segment, index) => segment !== to[index]);
      const folder = from.slice(0, at).join("/");
      const imports = folders.get(folder) ?? new Map<string, Set<string>>();
      folders.set(folder, imports);
      imports.set(from[at]!, (imports.get(from[at]!) ?? new Set()).add(to[at]!));
    }
  }
  return folders;
}

/** What imports itself through its neighbours. */
function circleMembers(imports: Imports): string[] {
  const reachable = (start: string): Set<string> => {
    const seen = new Set<string>();
    const open = [...(imports.get(start) ?? [])];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      open.push(...(imports.get(next) ?? []));
    }
    return seen;
  };
  return [...imports.keys()].filter((name) => reachable(name).has(name)).toSorted();
}

/** The names of a file's exported declarations that no doc comment precedes; overloads share one. */
function undocumentedExports(text: string): Set<string> {
  const declaration =
    /^export (?:declare )?(?:async )?(?:function\*?|class|interface|type|const|let) (\w+)/;
  const lines = text.split("\n");
  const documented = new Set<string>();
  const bare = new Set<string>();
  for (const [index, line] of lines.entries()) {
    const name = declaration.exec(line)?.[1];
    if (name === undefined) continue;
    const hasComment = lines[index - 1]?.trimEnd().endsWith("*/") === true;
    (hasComment || documented.has(name) ? documented : bare).add(name);
  }
  return bare;
}

/** The words of all identifiers, lower case: `tableEpoch` gives `table` and `epoch`. */
function identifierWords(text: string): Set<string> {
  const silent =
    /\/\/.*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/g;
  const words = text.replaceAll(silent, " ").match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? [];
  return new Set(words.map((word) => word.toLowerCase()));
}

/** The invariants a test file cites: a title begins with `I2:` or holds `(I2)` or `(I2, S4)`. */
function citedInvariants(text: string): Set<string> {
  const title = /\b(?:test|it|describe)\b[^"'`\n]*\(\s*(["'`])(.*?)\1/g;
  const citation = /(?:^|\()([SLRI]\d{1,2}(?:, [SLRI]\d{1,2})*)(?=[:)])/g;
  const titles = Array.from(text.matchAll(title), (match) => match[2] ?? "");
  const citations = titles.flatMap((words) => Array.from(words.matchAll(citation)));
  return new Set(citations.flatMap((match) => match[1]?.split(", ") ?? []));
}

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

interface LockEntry {
  readonly version?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const manifestOf = (layer: string): Manifest =>
  JSON.parse(read(`packages/${layer}/package.json`)) as Manifest;

describe("layers", () => {
  test("a file imports only its own package and the layers below", () => {
    const inPackages = written.filter((file) => file.startsWith("packages/"));

    const wrong = offenders(inPackages, (file) =>
      importsOf(file).filter((specifier) => !isImportAllowed(file, specifier)),
    );

    expect(wrong).toEqual([]);
  });

  test("what is shipped imports no test, double or fixture", () => {
    const wrong = offenders(sources, (file) =>
      importsOf(file)
        .filter((specifier) => specifier.startsWith("."))
        .map((specifier) => path.join(path.dirname(file), specifier))
        .filter(isTest),
    );

    expect(wrong).toEqual([]);
  });

  test("within a folder, files and folders import each other one way only, types included", () => {
    const circles = [...importsByFolder(sources)].flatMap(([folder, imports]) => {
      const members = circleMembers(imports);
      return members.length === 0 ? [] : [`${folder}: ${members.join(", ")}`];
    });

    expect(circles).toEqual([]);
  });

  test.each(Object.entries(LAYERS))("%s declares exactly its layers", (layer, below) => {
    const manifest = manifestOf(layer);
    const config = JSON.parse(read(`packages/${layer}/tsconfig.json`)) as {
      readonly references?: readonly { readonly path: string }[];
    };

    const ours = Object.entries(manifest.dependencies ?? {}).filter(([name]) =>
      name.startsWith("@winnow/"),
    );
    const references = (config.references ?? []).map((reference) => reference.path);

    const expected = below.map((name) => [packageName(name), manifest.version] as const);
    expect(new Map(ours)).toEqual(new Map(expected));
    expect(new Set(references)).toEqual(new Set(below.map((name) => `../${name}`)));
  });

  test("all packages carry one version", () => {
    const { version } = JSON.parse(read("package.json")) as Manifest;

    const versions = Object.keys(LAYERS).map((layer) => manifestOf(layer).version);

    expect(new Set(versions)).toEqual(new Set([version]));
  });

  test("every package is in the table of layers", () => {
    const folders = files.filter((file) => file.startsWith("packages/")).map(packageOf);

    expect(new Set(folders)).toEqual(new Set(Object.keys(LAYERS)));
  });
});

describe("files", () => {
  test("a file opens with a comment that says why it exists", () => {
    const header = /^(#!.*\n)?((\/\/.*\n)+|\/\*[\s\S]*?\*\/\n)\n/;

    const wrong = written.filter((file) => !header.test(`${read(file)}\n`));

    expect(wrong).toEqual([]);
  });

  // Node.js tries for ever to make some directories so.
  test("what is shipped makes no directory by a recursive mkdir", () => {
    const pattern = /\bmkdir(?:Sync)?\([^;]*recursive: true/g;

    const wrong = offenders(sources, (file) =>
      Array.from(read(file).matchAll(pattern), () => "use makeDirectory() of core"),
    );

    expect(wrong).toEqual([]);
  });

  test("every export has a doc comment", () => {
    expect(offenders(sources, (file) => undocumentedExports(read(file)))).toEqual([]);
  });

  test("an entrance lists its names", () => {
    expect(sources.filter((file) => /^export \*/m.test(read(file)))).toEqual([]);
  });

  test("names are kebab-case nouns that say something", () => {
    const wrong = offenders(written, (file) => {
      const names = file.split("/").map((segment) => segment.split(".")[0] ?? "");
      return names.filter((name) => !KEBAB_CASE.test(name) || EMPTY_NAMES.test(name));
    });

    expect(wrong).toEqual([]);
  });

  test("identifiers avoid the words the glossary retired", () => {
    const outsideWire = written.filter((file) => !file.startsWith("packages/cluster/src/rpc/"));

    const wrong = offenders(outsideWire, (file) =>
      [...identifierWords(read(file))].filter((word) => RETIRED_WORDS.has(word)),
    );

    expect(wrong).toEqual([]);
  });
});

test("files of tests that start first are there", () => {
  const paths = LONG_TESTS.map((name) => `${name}.test.ts`);

  expect(paths.filter((file) => !files.includes(file))).toEqual([]);
});

test("every invariant that a test's title cites stands in ARCHITECTURE.md", () => {
  const architecture = files.includes("ARCHITECTURE.md") ? read("ARCHITECTURE.md") : "";
  const known = new Set(architecture.match(/\b[SLRI]\d{1,2}\b/g));

  const wrong = offenders(written.filter(isTest), (file) =>
    [...citedInvariants(read(file))].filter((id) => !known.has(id)),
  );

  expect(wrong).toEqual([]);
});

test("the lock file names no registry and knows the prebuilt parts of every platform", () => {
  const lock = JSON.parse(read("package-lock.json")) as {
    readonly packages: Readonly<Record<string, LockEntry>>;
  };
  const entries = Object.entries(lock.packages);

  const bound = entries.filter(([, entry]) => entry.resolved?.includes("://"));
  const missing = entries.flatMap(([at, entry]) =>
    Object.keys(entry.optionalDependencies ?? {}).filter((name) =>
      [`${at}/node_modules/${name}`, `node_modules/${name}`].every(
        (place) => lock.packages[place]?.version === undefined,
      ),
    ),
  );

  expect(bound).toEqual([]);
  expect(missing).toEqual([]);
});
