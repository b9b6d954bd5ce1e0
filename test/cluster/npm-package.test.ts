// The npm package as a stranger gets it: packed, installed globally in a folder of its own with all scripts
// off, and run in an empty directory. The registry is asked for its few dependencies, or npm's cache is; where
// neither has them, the tests skip and say so.

import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { type TestContext, afterAll, beforeAll, expect, test } from "vitest";
import { readTracked } from "../tracked-files.ts";
import { pause, repositoryRoot } from "./running-cluster.ts";
import { supplyPorts } from "../port-supply.ts";

const run = promisify(execFile);

const script = path.join(repositoryRoot, "packages/winnow/scripts/npm-package.mjs");
const bundle = path.join(repositoryRoot, "packages/winnow/dist/bundle/main.js");

const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|E403|E5\d\d/;

/** To compile the scan takes 15 s on two idle cores, and ten times as long on busy ones. */
const COMPILE_MS_MAX = 600_000;

/** An installation takes 15 s, and up to five times that on a busy machine; a registry may stop in the middle of it. */
const INSTALL_MS_MAX = 240_000;
/** A file of which nothing comes any more is asked for again; npm itself waits for 300 s. */
const FETCH_MS_MAX = 30_000;
/** Bytes of the tarball and of what it holds: without tests, sources and what others maintain. */
const TARBALL_BYTES_MAX = 6_000_000;
const UNPACKED_BYTES_MAX = 20_000_000;

interface Packed {
  readonly tarball: string;
  readonly size: number;
  readonly unpackedSize: number;
}

const folder = mkdtempSync(path.join(tmpdir(), "winnow-npm-"));
const clean = path.join(folder, "clean");
const prefix = path.join(folder, "prefix");
const installed = path.join(prefix, "lib/node_modules/winnow-serving");
/** As a shell of somebody who never had a checkout: no settings of this one's, and no colours. */
const env = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(WINNOW|npm)_/.test(name)),
  ),
  NO_COLOR: "1",
};

let packed: Packed;
let missing: string | undefined;
let up: ChildProcess | undefined;

const winnow = async (...args: readonly string[]): Promise<string> => {
  const command = path.join(prefix, "bin/winnow");
  return (await run(command, args, { cwd: clean, env })).stdout;
};

/** Skips a test for what the package cannot be made or installed without. */
function needPackage(context: TestContext): void {
  if (missing !== undefined) context.skip(missing);
}

beforeAll(async () => {
  if (!existsSync(bundle)) {
    missing = "nothing is bundled: npm run build";
    return;
  }
  mkdirSync(clean);
  const { stdout } = await run(process.execPath, [script, "--out", folder], { env });
  packed = JSON.parse(stdout.trim().split("\n").at(-1)!) as Packed;
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  flags.push("--fetch-timeout", String(FETCH_MS_MAX));
  const install = ["install", "--global", "--prefix", prefix, ...flags, packed.tarball];
  try {
    await run("npm", install, { cwd: clean, env, timeout: INSTALL_MS_MAX });
  } catch (error) {
    const { stderr, killed } = error as { readonly stderr: string; readonly killed?: boolean };
    if (killed === true) missing = `the registry has not given all in ${INSTALL_MS_MAX / 1000} s`;
    else if (UNREACHABLE.test(stderr)) {
      missing = `the registry cannot be reached: ${stderr.split("\n")[0]}`;
    } else throw error;
  }
}, COMPILE_MS_MAX);

afterAll(() => {
  up?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

test("holds what runs, the licences of what it contains, and no sources or tests", (context) => {
  needPackage(context);
  const entries = execFileSync("tar", ["-tzf", packed.tarball], { encoding: "utf8" }).split("\n");

  expect(entries).toContain("package/packages/winnow/dist/bundle/main.js");
  expect(entries).toContain("package/deploy/kubernetes/base/kustomization.yaml");
  expect(entries.filter((file) => /\.(ts|map|tsbuildinfo)$|\btest\b/.test(file))).toEqual([]);
  expect(packed.size).toBeLessThan(TARBALL_BYTES_MAX);
  expect(packed.unpackedSize).toBeLessThan(UNPACKED_BYTES_MAX);
  const notices = readFileSync(path.join(installed, "THIRD-PARTY-NOTICES.txt"), "utf8");
  for (const name of ["@grpc/grpc-js", "fastify", "ioredis", "preact", "commander"]) {
    expect(notices).toMatch(new RegExp(`^${name} \\d+\\.\\S+ \\(\\S+\\)\\n\\n.*`, "m"));
  }
});

test("names exact versions of the packages it needs, as the workspaces do", (context) => {
  needPackage(context);
  const manifest = JSON.parse(readFileSync(path.join(installed, "package.json"), "utf8")) as {
    readonly dependencies: Readonly<Record<string, string>>;
    readonly version: string;
  };
  const root = JSON.parse(readTracked("package.json")) as { readonly version: string };

  expect(manifest.version).toBe(root.version);
  expect(Object.keys(manifest.dependencies)).toContain("onnxruntime-node");
  for (const version of Object.values(manifest.dependencies)) expect(version).toMatch(/^\d[\d.]*$/);
});

test("renders manifests without a checkout, with images of its own version", async (context) => {
  needPackage(context);
  const { version } = JSON.parse(readTracked("package.json")) as { readonly version: string };

  const manifests = await winnow("k8s", "render", "--namespace", "shop");

  expect(manifests).toContain(`image: winnow:${version}`);
  expect(manifests).toContain("namespace: shop");
});

test("in an empty directory it writes the demo, comes up and predicts", async (context) => {
  needPackage(context);
  const [port] = (await supplyPorts(1)) as [number];
  await winnow("demo", "demo-models");
  const flags = ["up", "--models", "demo-models", "--workers", "2", "--port", `${port}`];
  up = spawn(path.join(prefix, "bin/winnow"), flags, { cwd: clean, env });
  let output = "";
  for (const stream of [up.stdout, up.stderr]) stream?.on("data", (data) => (output += `${data}`));
  for (let waited = 0; !output.includes("Ctrl-C stops everything"); waited += 1) {
    if (waited > 600 || up.exitCode !== null) throw new Error(`did not come up:\n${output}`);
    await pause(100);
  }

  const url = `http://127.0.0.1:${port}`;
  const answer = await winnow("predict", "movies", '["42"]', "-k", "3", "--url", url);
  const ranked = await fetch(`${url}/v1/models/home-feed:predict`, {
    method: "POST",
    body: '{"instances":["42"]}',
  });
  const page = await fetch(`${url}/console/console.js`);
  const ended = new Promise((resolve) => up!.once("exit", resolve));
  up.kill("SIGINT");

  const { predictions } = JSON.parse(answer) as { predictions: [{ output_2: string[] }] };
  expect(predictions[0].output_2).toHaveLength(3);
  expect(ranked.status).toBe(200);
  expect(page.status).toBe(200);
  expect(await ended).toBe(0);
});

test(
  "doctor tells where the scan is from: the package, this machine's compiler, or plain JavaScript",
  async (context) => {
    needPackage(context);
    const scan = async (): Promise<string> => {
      const { stdout } = await run(path.join(prefix, "bin/winnow"), ["doctor", "--port", "0"], {
        cwd: clean,
        env,
      }).catch((error: { readonly stdout: string }) => error);
      return stdout.split("\n").find((line) => line.includes("CPU scan"))!;
    };
    const install = async (settings: object): Promise<string> => {
      const options = { cwd: installed, env: { ...env, ...settings } };
      return (await run("npm", ["run", "--silent", "install"], options)).stdout;
    };

    const before = [await install({}), await scan()];
    rmSync(path.join(installed, "packages/accelerator/build/prebuilt"), { recursive: true });
    const without = await scan();
    // What this checkout compiled of the same sources is linked; a source or header that the package lacks or
    // changes is compiled anew.
    const objects = "packages/accelerator/build/objects";
    const made = path.join(repositoryRoot, objects);
    if (existsSync(made)) cpSync(made, path.join(installed, objects), { recursive: true });
    const compiled = [await install({}), await scan()];

    expect(before).toEqual([
      expect.stringMatching(/^native: the prebuilt addon for \S+ loads$/m),
      expect.stringContaining("native addon prebuilt"),
    ]);
    expect(without).toMatch(/^note .*plain JavaScript.*npm run build:native/);
    expect(compiled).toEqual([
      expect.stringMatching(/^native: built with /),
      expect.stringContaining("native addon built"),
    ]);
  },
  COMPILE_MS_MAX,
);
