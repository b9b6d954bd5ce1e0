// What a process loads before it listens. A worker's start is mostly the loading of modules, and every
// worker of a machine pays it: what a process may never use is loaded when it is used. Held for the modules,
// by asking a process, and for the bundle that is made of them (packages/winnow/scripts/bundle.mjs), by
// reading it.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { writeRetrievalModel } from "@winnow/model-writer";
import { StringColumn } from "@winnow/core";
import { NEEDS_SMALL_DISK, smallDisk } from "./small-disk.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const script = path.resolve(import.meta.dirname, "../packages/winnow/dist/main.js");

const bundle = path.resolve(import.meta.dirname, "../packages/winnow/dist/bundle");

const utf8 = { encoding: "utf8" } as const;

/** Loaded before anything else in a process: tells its parent, when asked, which packages are there. */
const SPY = `
process.on("message", (message) => {
  if (message !== "test:modules") return;
  const names = Object.keys(require.cache).map((file) => /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(file)?.[1]);
  process.send({ names: [...new Set(names)].filter((name) => name !== undefined) });
});`;

interface Started {
  readonly process: ChildProcess;
  readonly packages: readonly string[];
}

describe.skipIf(!existsSync(script))("before it listens (needs a build)", () => {
  const running: ChildProcess[] = [];
  let folder = "";

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "winnow-start-"));
    await writeFile(path.join(folder, "spy.cjs"), SPY);
    const rows = (count: number) => ({
      rows: count,
      dim: 4,
      pieces: () => [Float32Array.from({ length: count * 4 }, (_, at) => at % 7)],
    });
    const names = ["a", "b", "c"];
    writeRetrievalModel(path.join(folder, "models", "plain", "1"), {
      users: { vocabulary: StringColumn.fromText(names), embedding: rows(4) },
      candidates: rows(3),
      identifiers: StringColumn.fromText(names),
      k: 2,
    });
  });

  afterAll(async () => {
    for (const child of running) child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  });

  async function start(...args: readonly string[]): Promise<Started> {
    const flags = ["--require", path.join(folder, "spy.cjs")];
    const child = spawn(process.execPath, [...flags, script, ...args, "--log-level", "warn"], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    running.push(child);
    const next = <Message>(isIt: (message: unknown) => boolean): Promise<Message> =>
      new Promise((resolve, reject) => {
        child.on("message", (message) => {
          if (isIt(message)) resolve(message as Message);
        });
        child.on("exit", (code) => reject(new Error(`ended with ${code}`)));
      });
    await next((message) => message === "winnow:listening");
    const told = next<{ names: string[] }>((message) => typeof message === "object");
    child.send("test:modules");
    return { process: child, packages: (await told).names };
  }

  const members = ["--members", "w0@127.0.0.1:1"];
  const worker = ["worker", "--id", "w0", "--port", "0", "--advertise", "127.0.0.1:1"];

  test("a worker with a fixed list has loaded no Redis client, HTTP framework or dense engine", async () => {
    const models = ["--models", path.join(folder, "models")];

    const started = await start(...worker, ...members, ...models, "--metrics-port", "0");

    expect(started.packages).toContain("@grpc/grpc-js");
    expect(amongThem(started.packages, "ioredis", "fastify", "onnxruntime-node")).toEqual([]);
    expect(amongThem(started.packages, "protobufjs", "@grpc/proto-loader")).toEqual([]);
    // Its threads as well: a library that any of them has loaded is mapped into the process.
    const maps = `/proc/${started.process.pid}/maps`;
    expect(existsSync(maps) ? await readFile(maps, "utf8") : "").not.toContain("onnxruntime");
  });

  test("a router with a fixed list and REST alone has loaded no Redis client or gRPC messages", async () => {
    const { packages } = await start("router", "--port", "0", ...members);

    expect(packages).toContain("fastify");
    expect(amongThem(packages, "ioredis", "onnxruntime-node")).toEqual([]);
    expect(amongThem(packages, "protobufjs", "@grpc/proto-loader")).toEqual([]);
  });
});

describe.skipIf(!existsSync(bundle))("of the bundle (needs a build)", () => {
  /** The packages of a file, and of those that it imports at once. */
  function packagesOf(file: string, seen = new Set<string>()): Set<string> {
    if (seen.has(file)) return new Set();
    seen.add(file);
    const code = readFileSync(path.join(bundle, file), "utf8");
    const names = code.matchAll(/^\/\/ node_modules\/((?:@[^/]+\/)?[^/\n]+)\//gm);
    const required = code.matchAll(/^(?:(?:const|let) \S+ = )?require\("\.\/([^"]+)"\);$/gm);
    const below = [...required].flatMap(([, name]) => Array.from(packagesOf(name!, seen)));
    return new Set([...below, ...Array.from(names, ([, name]) => name!)]);
  }

  const fileOf = (name: string): string =>
    readdirSync(bundle).find((file) => file.startsWith(`${name}-`))!;

  test.each(["worker", "router"])("what a %s begins with has the same left out", (command) => {
    const packages = [...packagesOf(fileOf(command))];

    expect(packages).toContain("@grpc/grpc-js");
    expect(amongThem(packages, "ioredis", "protobufjs", "@grpc/proto-loader")).toEqual([]);
    expect(packages.includes("fastify")).toBe(command === "router");
  });

  test("every file is ASCII, as its loader reads it, and says the same as its sources", () => {
    const files = readdirSync(bundle).filter((file) => file.endsWith(".js") && file !== "load.js");
    const others = files.filter((file) =>
      /[^\0-\u007F]/.test(readFileSync(path.join(bundle, file), "latin1")),
    );
    const help = execFileSync(
      process.execPath,
      [path.join(bundle, "main.js"), "worker", "--help"],
      utf8,
    );

    expect(others).toEqual([]);
    expect(help).toContain("fixed list instead of Redis: id@host:port,…");
  });

  test.each(["compute-thread", "reader-thread"])("a %s has no foreign package", (thread) => {
    expect([...packagesOf(fileOf(thread))]).toEqual([]);
  });
});

test("the bundle is run unless one of the packages was compiled after it", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "winnow-bundle-"));
  const at = (name: string): string => path.join(root, "packages", name);
  const write = async (name: string, text: string, seconds: number): Promise<void> => {
    await mkdir(path.dirname(at(name)), { recursive: true });
    await writeFile(at(name), text);
    await utimes(at(name), seconds, seconds);
  };
  const run = (): string => execFileSync(process.execPath, [at("winnow/bin/winnow.js")], utf8);
  await write("winnow/package.json", '{ "type": "module" }', 1);
  await write("winnow/bin/winnow.js", "", 1);
  for (const file of ["winnow.js", "package.json"]) {
    const shipped = path.resolve(import.meta.dirname, "../packages/winnow/bin", file);
    await copyFile(shipped, at(`winnow/bin/${file}`));
  }
  await write("winnow/dist/main.js", "await process.stdout.write('modules')", 1);
  await write("winnow/dist/bundle/package.json", '{ "type": "commonjs" }', 1);
  await write("core/dist/tsconfig.tsbuildinfo", "", 100);

  const without = run();
  await write("winnow/dist/bundle/main.js", "process.stdout.write('bundle')", 100);
  const made = run();
  await write("core/dist/tsconfig.tsbuildinfo", "", 101);
  const outdated = run();
  await rm(root, { recursive: true });

  expect([without, made, outdated]).toEqual(["modules", "bundle", "modules"]);
});

test("what V8 made of the bundle's files is kept for the very same bytes, and used if it is whole", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "winnow-kept-"));
  const at = (name: string): string => path.join(root, name);
  const run = (): string => execFileSync(process.execPath, [at("main.js")], utf8);
  await copyFile(
    path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundle-loader.cjs"),
    at("load.js"),
  );
  await writeFile(at("main.js"), 'require("./load.js")("main", "main-1.js");');
  const main = (text: string): string =>
    `importModule("node:os").then(() => require("./part-1.js").say("${text}"));`;
  await writeFile(at("main-1.js"), main("one"));
  const say = "exports.say = (text) => process.stdout.write(text);";
  await writeFile(at("part-1.js"), say);

  const said = [run()];
  const [kind] = readdirSync(at("cache")) as [string];
  const kept = at(`cache/${kind}/main/main-1.js`);
  const whole = readFileSync(kept);
  const damaged = Uint8Array.from(whole);
  damaged[damaged.length - 20]! ^= 1;
  await writeFile(kept, damaged);
  said.push(run());
  const mended = readFileSync(kept);
  // V8 itself compares no more than the length.
  await writeFile(at("main-1.js"), main("two"));
  said.push(run());
  await utimes(kept, 1, 1);
  said.push(run());
  const { mtimeMs } = statSync(kept);
  // Nothing can be written.
  await rm(at("cache"), { recursive: true });
  await writeFile(at("cache"), "");
  said.push(run());
  await rm(root, { recursive: true });

  expect(said).toEqual(["one", "one", "two", "two", "two"]);
  expect(mended.equals(damaged)).toBe(false);
  expect(mended.length).toBe(whole.length);
  expect(mtimeMs).toBe(1000);
});

const disk = smallDisk();
afterAll(() => disk?.remove());

test.skipIf(disk === undefined)(
  `on a full disk what V8 made is not kept, and no part of it is left ${NEEDS_SMALL_DISK}`,
  async () => {
    const at = (name: string): string => path.join(disk!.folder, name);
    await copyFile(
      path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundle-loader.cjs"),
      at("load.js"),
    );
    await writeFile(at("main.js"), 'require("./load.js")("main", "main-1.js");');
    await writeFile(at("main-1.js"), 'process.stdout.write("said");');
    disk!.fill();

    const said = execFileSync(process.execPath, [at("main.js")], utf8);

    const made = readdirSync(at("cache"), { recursive: true }) as string[];
    expect(said).toBe("said");
    expect(made.filter((name) => name.includes("main-1.js"))).toEqual([]);
  },
);

test("threads find what V8 made under the flags of their process, though their own options are none", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "winnow-threads-"));
  const at = (name: string): string => path.join(root, name);
  await copyFile(
    path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundle-loader.cjs"),
    at("load.js"),
  );
  await writeFile(at("main.js"), 'require("./load.js")("main", "main-1.js");');
  const start = `new (require("node:worker_threads").Worker)(__dirname + "/thread.js", { execArgv: [] })`;
  await writeFile(at("main-1.js"), `${start}.on("exit", () => {});`);
  await writeFile(at("thread.js"), 'require("./load.js")("thread", "thread-1.js");');
  await writeFile(at("thread-1.js"), "exports.isRun = true;");

  const made = ["--stack-size=900", "--stack-size=901"].map((flag) => {
    execFileSync(process.execPath, [flag, at("main.js")]);
    return readdirSync(at("cache")).length;
  });
  const kept = readdirSync(at("cache"), { recursive: true }) as string[];
  await rm(root, { recursive: true });

  expect(made).toEqual([1, 2]);
  expect(kept.filter((name) => name.endsWith("thread/thread-1.js"))).toHaveLength(2);
});

test("what V8 made is found whether it was made before a process set its flags or after", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "winnow-flags-"));
  const at = (name: string): string => path.join(root, name);
  await copyFile(
    path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundle-loader.cjs"),
    at("load.js"),
  );
  await writeFile(at("main.js"), 'require("./load.js")("main", "main-1.js");');
  const flags = ["--heap-growing-percent=300", "--no-allocation-site-pretenuring"];
  const set = `require("node:v8").setFlagsFromString("${flags.join(" ")}");`;
  const start = `new (require("node:worker_threads").Worker)(__dirname + "/thread.js")`;
  const late = `${set} ${start}; require("./part-1.js");`;
  await writeFile(at("main-1.js"), `${start}.on("exit", () => { ${late} });`);
  await writeFile(at("part-1.js"), "exports.isRun = true;");
  await writeFile(at("thread.js"), 'require("./load.js")("thread", "thread-1.js");');
  await writeFile(at("thread-1.js"), "exports.isRun = true;");
  const run = (): readonly string[] => {
    execFileSync(process.execPath, [at("main.js")]);
    const names = readdirSync(at("cache"), { recursive: true }) as string[];
    const files = names.filter((name) => name.endsWith("-1.js")).toSorted();
    return files.map((name) => `${path.basename(name)} ${statSync(at(`cache/${name}`)).mtimeMs}`);
  };

  const [first, second] = [run(), run()];
  const isRejected = `process.stdout.write(String(script.cachedDataRejected)); return script;`;
  const loader = readFileSync(at("load.js"), "utf8").replace("return script;", isRejected);
  await writeFile(at("load.js"), loader);
  const rejected = execFileSync(process.execPath, [at("main.js")], utf8);
  await rm(root, { recursive: true });

  expect(first.map((name) => name.split(" ")[0])).toEqual([
    "main-1.js",
    "part-1.js",
    "thread-1.js",
  ]);
  expect(second).toEqual(first);
  expect(rejected).toBe("false".repeat(4));
});

test("a process that says that it has started keeps what V8 made, though it is killed at once", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "winnow-told-"));
  const at = (name: string): string => path.join(root, name);
  await copyFile(
    path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundle-loader.cjs"),
    at("load.js"),
  );
  await writeFile(at("main.js"), 'require("./load.js")("main", `main-${process.argv[2]}.js`);');
  const kill = 'process.kill(process.pid, "SIGKILL");';
  await writeFile(at("main-1.js"), kill);
  await writeFile(at("main-2.js"), `process.emit("winnow:started"); ${kill}`);

  const ends = ["1", "2"].map((name) => spawnSync(process.execPath, [at("main.js"), name]).signal);
  const kept = readdirSync(at("cache"), { recursive: true }) as string[];
  await rm(root, { recursive: true });

  expect(ends).toEqual(["SIGKILL", "SIGKILL"]);
  expect(kept.filter((name) => name.endsWith(".js")).map((name) => path.basename(name))).toEqual([
    "main-2.js",
  ]);
});

test("what V8 made is writable for its owner alone, and kept for a few Nodes and flags", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "winnow-kinds-"));
  const at = (name: string): string => path.join(root, name);
  await copyFile(
    path.resolve(import.meta.dirname, "../packages/winnow/scripts/bundle-loader.cjs"),
    at("load.js"),
  );
  await writeFile(at("main.js"), 'require("./load.js")("main", "main-1.js");');
  await writeFile(at("main-1.js"), "process.exitCode = 0;");

  for (let kind = 0; kind < 10; kind += 1) {
    const run = `umask 0; exec "${process.execPath}" --stack-size=${900 + kind} "${at("main.js")}"`;
    execFileSync("/bin/sh", ["-c", run]);
  }
  const made = readdirSync(at("cache"), { recursive: true }) as string[];
  const modes = new Set(["", ...made].map((name) => statSync(at(`cache/${name}`)).mode & 0o022));
  await rm(root, { recursive: true });

  expect(made.filter((name) => !name.includes("/"))).toHaveLength(8);
  expect(made.filter((name) => name.endsWith("main-1.js"))).toHaveLength(8);
  expect(modes).toEqual(new Set([0]));
});

function amongThem(packages: readonly string[], ...names: readonly string[]): string[] {
  return names.filter((name) => packages.includes(name));
}
