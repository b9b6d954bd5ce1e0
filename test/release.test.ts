// What a release is made of, as text: one version everywhere, workflows whose actions are pinned to commits and
// may do no more than they need, and jobs that publish only what was tested. Nothing here was run by GitHub.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { dockerStages } from "./deploy/dockerfile.ts";
import { readTracked, trackedFiles } from "./tracked-files.ts";

const root = path.resolve(import.meta.dirname, "..");
const { version, scripts } = JSON.parse(readTracked("package.json")) as {
  readonly version: string;
  readonly scripts: Readonly<Record<string, string>>;
};

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly needs?: string | readonly string[];
  readonly uses?: string;
  readonly steps?: readonly Step[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: Readonly<Record<string, unknown>> };
  readonly "timeout-minutes"?: number;
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflowFiles = trackedFiles.filter((file) => file.startsWith(".github/workflows/"));
const workflowOf = (name: string): Workflow =>
  parse(readTracked(`.github/workflows/${name}.yml`)) as Workflow;
const stepsOf = (job: Job | undefined): readonly Step[] => job?.steps ?? [];
const textOf = (job: Job | undefined): string =>
  stepsOf(job)
    .map(({ run = "", uses = "" }) => `${run}${uses}`)
    .join("\n");

describe("the version", () => {
  const places = [
    "deploy/kubernetes/base/kustomization.yaml",
    "deploy/kubernetes/components/gpu/kustomization.yaml",
    "docs/install.md",
    "docs/kubernetes.md",
  ];

  test.each(places)("%s tells that of package.json", (file) => {
    const told = readTracked(file).matchAll(
      /(?:newTag: |winnow(?:-gpu)?:|winnow-serving-|\?ref=v)(\d+\.\d+\.\d+(?:-\w+)?)/g,
    );

    const versions = Array.from(told, (match) => match[1]);

    expect(versions.length).toBeGreaterThan(0);
    expect(new Set(versions)).toEqual(new Set([version]));
  });

  test("`set-version` changes it everywhere, and nothing else", () => {
    const copy = mkdtempSync(path.join(tmpdir(), "winnow-version-"));
    for (const file of trackedFiles.filter((each) => /^(package|deploy|docs)|^README/.test(each))) {
      cpSync(path.join(root, file), path.join(copy, file));
    }
    const script = path.join(copy, "packages/winnow/scripts/set-version.mjs");
    const next = "98.76.54";

    execFileSync(process.execPath, [script, next]);
    const changed = trackedFiles.filter(
      (file) => /^(package|deploy|docs)/.test(file) && textIn(copy, file) !== textIn(root, file),
    );
    const undone = changed.filter(
      (file) => textIn(copy, file).replaceAll(next, version) !== textIn(root, file),
    );
    rmSync(copy, { recursive: true });

    const manifests = trackedFiles.filter((file) =>
      /^packages\/\w[\w-]*\/package\.json$/.test(file),
    );
    const all = [...places, ...manifests, "package-lock.json", "package.json"];
    expect(changed.toSorted()).toEqual(all.toSorted());
    expect(undone).toEqual([]);
  });

  test("`set-version` refuses what is no version", () => {
    const script = path.join(root, "packages/winnow/scripts/set-version.mjs");
    const run = (): string =>
      execFileSync(process.execPath, [script, "v1"], { stdio: "pipe" }).toString();

    expect(run).toThrow('"v1" is no version');
  });
});

function textIn(folder: string, file: string): string {
  return readFileSync(path.join(folder, file), "utf8");
}

describe.each(workflowFiles)("%s", (file) => {
  const workflow = parse(readTracked(file)) as Workflow;
  const jobs = Object.values(workflow.jobs);

  test("pins every action of others to a commit, and tells its release", () => {
    const uses = readTracked(file)
      .split("\n")
      .filter((line) => /^\s*(- )?uses: /.test(line));
    const ofOthers = uses.filter((line) => !line.includes("uses: ./"));

    expect(ofOthers.length).toBeGreaterThan(0);
    for (const line of ofOthers) expect(line).toMatch(/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test("may only read unless a job says otherwise, ends, and leaves no credentials behind", () => {
    const running = jobs.filter(({ uses }) => uses === undefined);
    const checkouts = jobs
      .flatMap(stepsOf)
      .filter(({ uses }) => uses?.startsWith("actions/checkout@"));

    expect(workflow.permissions).toEqual({ contents: "read" });
    for (const job of running) expect(job["timeout-minutes"]).toBeGreaterThan(0);
    for (const step of checkouts) expect(step.with).toHaveProperty("persist-credentials", false);
  });

  test("runs only scripts that package.json has, and scripts that exist", () => {
    const text = jobs.map(textOf).join("\n");
    const named = Array.from(text.matchAll(/npm run ([\w:-]*\w)/g), (match) => match[1]!);
    const files = Array.from(text.matchAll(/node (packages\/\S+)/g), (match) => match[1]!);

    expect(named.filter((name) => !(name in scripts))).toEqual([]);
    expect(files.filter((name) => !trackedFiles.includes(name))).toEqual([]);
  });

  test("waits for jobs that there are", () => {
    const waited = jobs.flatMap(({ needs = [] }) => needs);

    expect(waited.filter((name) => !(name in workflow.jobs))).toEqual([]);
  });
});

describe("ci.yml", () => {
  test("runs the README's two commands on every Node that is supported", () => {
    const job = workflowOf("ci").jobs["test"];
    const [start, , tests] = Array.from(
      readTracked("README.md").matchAll(/^npm ci && .*$/gm),
      (match) => match[0],
    ).flatMap((line) => [line, undefined].slice(0, line.includes("winnow up") ? 2 : 1));
    const runs = stepsOf(job).map(({ run }) => run);

    expect(job?.strategy?.matrix["node"]).toEqual([20, 22, 24, 26]);
    expect(runs).toContain(start!.slice(0, start!.indexOf(" && npx winnow up")));
    expect(runs).toContain(tests);
  });
});

describe("release.yml", () => {
  const workflow = workflowOf("release");
  const { jobs } = workflow;

  /** Jobs that are over when this one begins. */
  function before(name: string): string[] {
    const needs = [jobs[name]?.needs ?? []].flat();
    return [...needs, ...needs.flatMap(before)];
  }

  test("begins with a tag, and publishes nothing before tests and version", () => {
    expect(Object.keys(workflow.on)).toEqual(["push"]);
    expect(Object.keys(workflow.on["push"] as object)).toEqual(["tags"]);
    expect(jobs["test"]?.uses).toBe("./.github/workflows/ci.yml");
    for (const name of ["npm", "images"]) {
      expect(before(name)).toEqual(expect.arrayContaining(["test", "version"]));
    }
  });

  test("publishes the tarball with provenance, the scan of both architectures and an SBOM", () => {
    const text = textOf(jobs["npm"]);
    const machines = jobs["scan"]?.strategy?.matrix["include"] as { readonly image: string }[];

    expect(
      machines.map(({ image }) => /_([^_:]*):/.exec(image.replace("x86_64", "x64"))?.[1]),
    ).toEqual(["x64", "aarch64"]);
    for (const { image } of machines) expect(image).toMatch(/:[\d.]+-\d@sha256:[0-9a-f]{64}$/);
    expect(textOf(jobs["scan"])).toContain("build-native.mjs --portable prebuilds");
    expect(text).toContain("npm run pack:npm -- --prebuilds prebuilds");
    expect(text).toMatch(/npm sbom .*--sbom-format=cyclonedx/);
    expect(text).toMatch(/npm publish \S+\.tgz --provenance .*--tag /);
    expect(jobs["npm"]?.permissions).toEqual({ contents: "read", "id-token": "write" });
  });

  test.each([
    ["1.2.3", "latest"],
    ["1.2.3-rc1", "next"],
  ])("gives the npm package of version %s the tag %s", (told, tag) => {
    const [publish] = stepsOf(jobs["npm"]).flatMap(({ run = "" }) =>
      run.startsWith("npm publish ") ? [run] : [],
    );
    const [, asked] = /--tag "\$\((node -p '[^']*')\)"/.exec(publish!)!;

    const given = execFileSync("sh", ["-c", asked!], { env: { ...process.env, VERSION: told } });

    expect(given.toString().trim()).toBe(tag);
    expect(before("npm")).toContain("version");
  });

  test("builds the image's targets with provenance and SBOM, the plain one for both architectures", () => {
    const build = stepsOf(jobs["images"]).find(({ uses }) => uses?.includes("build-push-action"));
    const targets = jobs["images"]?.strategy?.matrix["include"] as {
      readonly target: string;
      readonly platforms: string;
    }[];
    const stages = dockerStages();

    expect(build?.with).toMatchObject({ provenance: "mode=max", sbom: true });
    // The images are those that the Dockerfile pins.
    expect(build?.with).not.toHaveProperty("build-args");
    expect(jobs["images"]?.permissions).toEqual({ contents: "read", packages: "write" });
    expect(stages.map(({ name }) => name)).toEqual(
      expect.arrayContaining(targets.map(({ target }) => target)),
    );
    expect(targets.find(({ target }) => target === "cpu")?.platforms).toBe(
      "linux/amd64,linux/arm64",
    );
  });
});
