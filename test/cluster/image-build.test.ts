// The image's steps without an engine: what `deploy/Dockerfile` copies and runs is copied and run in an empty
// directory, and what its image would hold serves there. Not held: the base images, the user, apt packages.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { type TestContext, afterAll, beforeAll, expect, test } from "vitest";
import { type Instruction, dockerStages } from "../deploy/dockerfile.ts";
import { supplyPorts } from "../port-supply.ts";
import { trackedFiles } from "../tracked-files.ts";
import { pause, repositoryRoot } from "./running-cluster.ts";

const run = promisify(execFile);

const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|E403|E5\d\d/;
/** What takes 70 s on two idle cores takes four minutes on two that have ten times as much to do. */
const BUILD_MS_MAX = 900_000;
const OUTPUT_BYTES_MAX = 2 ** 26;

const folder = mkdtempSync(path.join(tmpdir(), "winnow-image-"));
const build = path.join(folder, "build");
const image = path.join(folder, "image");
const stages = new Map(dockerStages().map((stage) => [stage.name, stage]));
const inherited = Object.entries(process.env).filter(([name]) => !/^(WINNOW|npm)_/.test(name));
const env = { ...Object.fromEntries(inherited), NO_COLOR: "1", npm_config_prefer_offline: "true" };

const cache = path.join(image, "packages/winnow/dist/bundle/cache");

let missing: string | undefined;
let keptAtBuild: readonly string[] = [];
let served: ChildProcess | undefined;

/** What `COPY a b target/` does, from the files that git tracks: a checkout has no others. */
function copyTracked(text: string): void {
  const words = text.split(/\s+/);
  for (const source of words.slice(0, -1)) {
    const files = trackedFiles.filter((file) => file === source || file.startsWith(`${source}/`));
    expect(files, `COPY ${source}`).not.toEqual([]);
    for (const file of files) cpSync(path.join(repositoryRoot, file), path.join(build, file));
  }
}

async function runStep({ name, text }: Instruction): Promise<void> {
  if (name === "COPY") copyTracked(text);
  if (name !== "RUN") return;
  if (text.startsWith("npm ci ") && (await layPackages())) return;
  await run("sh", ["-ec", text], { cwd: build, env, maxBuffer: OUTPUT_BYTES_MAX });
}

/**
 * What `npm ci` gave this checkout, as links: the same from the same lock file, which it refuses where it does not
 * fit (CI's first step). And what both compilers made here, which they make anew of any source that differs.
 */
async function layPackages(): Promise<boolean> {
  const lists = trackedFiles.filter((file) => /^(packages\/[^/]+\/)?package\.json$/.test(file));
  const folders = lists.map((file) => path.join(path.dirname(file), "node_modules"));
  const there = folders.filter((each) => existsSync(path.join(repositoryRoot, each)));
  try {
    for (const each of there) {
      mkdirSync(path.dirname(path.join(build, each)), { recursive: true });
      await run("cp", ["-al", path.join(repositoryRoot, each), path.join(build, each)]);
    }
  } catch {
    for (const each of there) rmSync(path.join(build, each), { recursive: true, force: true });
    return false;
  }
  // Later steps may write into these.
  const compiled = lists.map((file) => path.join(path.dirname(file), "dist"));
  const objects = "packages/accelerator/build/objects";
  for (const each of ["node_modules/.package-lock.json", objects, ...compiled]) {
    const from = path.join(repositoryRoot, each);
    rmSync(path.join(build, each), { force: true });
    // Without what later steps make: the bundle and the console's page.
    const filter = (file: string): boolean => !/\/dist\/(bundle|page)$/.test(file);
    if (existsSync(from)) cpSync(from, path.join(build, each), { recursive: true, filter });
  }
  return true;
}

/** Folders of bytecode: `<kind>/<role>`. A process whose kind differs from all makes its own. */
function keptRoles(): string[] {
  const kinds = existsSync(cache) ? readdirSync(cache) : [];
  return kinds.flatMap((kind) =>
    readdirSync(path.join(cache, kind)).map((role) => `${kind}/${role}`),
  );
}

/** What the last stage takes over from the one that builds. */
function layImage(): void {
  for (const { name, text } of stages.get("cpu")!.instructions) {
    const [, from, to] = /^--from=build \/winnow\/(\S+) \.\/(\S*)$/.exec(text) ?? [];
    if (name !== "COPY" || from === undefined || to === undefined) continue;
    const target = path.join(image, to);
    if (to === "") cpSync(path.join(build, from), target, { recursive: true });
    else renameSync(path.join(build, from), target);
  }
}

/** The array of an instruction in exec form. */
function execForm(name: string): string[] {
  const found = stages.get("runtime")!.instructions.find((each) => each.name === name)!;
  return JSON.parse(found.text) as string[];
}

const [, ...entry] = execForm("ENTRYPOINT");

function needImage(context: TestContext): void {
  if (missing !== undefined) context.skip(missing);
}

beforeAll(async () => {
  mkdirSync(build);
  mkdirSync(image);
  try {
    for (const instruction of stages.get("build")!.instructions) await runStep(instruction);
    layImage();
    keptAtBuild = keptRoles();
  } catch (error) {
    const { stderr = "" } = error as { readonly stderr?: string };
    if (!UNREACHABLE.test(stderr)) throw error;
    missing = `the registry cannot be reached: ${stderr.split("\n")[0]}`;
  }
}, BUILD_MS_MAX);

afterAll(() => {
  served?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

test("holds no sources or tests of Winnow, and ONNX Runtime for one platform", (context) => {
  needImage(context);
  const ours = readdirSync(path.join(image, "packages"), { encoding: "utf8", recursive: true });
  const runtimes = path.join(image, "node_modules/onnxruntime-node/bin/napi-v6");
  const platforms = readdirSync(runtimes).flatMap((platform) =>
    readdirSync(path.join(runtimes, platform)).map((architecture) => `${platform}-${architecture}`),
  );

  expect(ours.filter((file) => /\.ts$|\.test\.|\btest\//.test(file))).toEqual([]);
  expect(platforms).toEqual([`linux-${process.arch}`]);
  expect(existsSync(path.join(image, "node_modules/vitest"))).toBe(false);
});

test("doctor finds the compiled scan and nothing that is missing", async (context) => {
  needImage(context);
  const ask = [...entry, "doctor", "--port", "0", "--worker-port", "0"];

  const { stdout } = await run(process.execPath, ask, { cwd: image, env });

  expect(stdout).toContain("native addon prebuilt");
  expect(stdout).toContain("Winnow can run here.");
});

test("flags alone, which take the place of its default command, serve MODEL_NAME; it leaves in order on SIGTERM", async (context) => {
  needImage(context);
  const models = path.join(folder, "models");
  await run(process.execPath, [...entry, "demo", models], { cwd: image, env });
  const [rest, grpc] = (await supplyPorts(2)) as [number, number];
  const flags = ["--host", "127.0.0.1", "--port", `${grpc}`, "--rest_api_port", `${rest}`];
  const variables = { MODEL_NAME: "movies-ranking", MODEL_BASE_PATH: models };
  served = spawn(process.execPath, [...entry, ...flags], {
    cwd: image,
    env: { ...env, ...variables },
    stdio: "ignore",
  });
  const url = `http://127.0.0.1:${rest}/v1/models/movies-ranking:predict`;
  const body = '{"instances":[{"user_id":"42","movie_title":"The Silent Harbor (1954)"}]}';
  const ask = (): Promise<Response | undefined> =>
    fetch(url, { method: "POST", body }).catch(() => undefined);

  let answer = await ask();
  for (let waited = 0; answer?.status !== 200 && waited < 300; waited += 1) {
    await pause(100);
    answer = await ask();
  }
  const ended = new Promise((resolve) => served!.once("exit", resolve));
  served.kill("SIGTERM");

  expect(answer?.status).toBe(200);
  expect(await ended).toBe(0);
});

test("its processes found what V8 compiled at the build, and so made none of their own kinds", (context) => {
  needImage(context);
  const roles = new Set(keptAtBuild.map((name) => path.basename(name)));
  const kinds = (names: readonly string[]): string[] => [
    ...new Set(names.map((name) => path.dirname(name))),
  ];

  expect([...roles]).toEqual(
    expect.arrayContaining(["main", "router", "worker", "compute-thread", "dense-process"]),
  );
  expect(kinds(keptRoles())).toEqual(kinds(keptAtBuild));
});
