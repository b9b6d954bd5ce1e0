// The command as a person types it: help, errors that say what would work, exit codes, data on stdout
// and everything else on stderr. The real process runs from `dist/`.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test, vi } from "vitest";
import {
  floats,
  modelOf,
  npy,
  writeExport,
} from "../packages/model/src/onnx-directory/fixtures/onnx-exports.ts";
import { testAuthority } from "./fixtures/certificates.ts";
import { handshake, sslText } from "./fixtures/grpc-certificates.ts";
import { supplyPorts } from "./port-supply.ts";

const script = path.resolve(import.meta.dirname, "../packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-command-"));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function winnow(args: readonly string[], env: Readonly<Record<string, string>> = {}): Ended {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: "utf8",
    timeout: 60_000,
    env: { ...process.env, NO_COLOR: "1", ...env },
  });
  return { code: status, stdout, stderr };
}

describe("winnow", () => {
  test("--help lists the commands, and a command's --help its flags with their variables", () => {
    const root = winnow(["--help"]);
    const up = winnow(["up", "--help"]);

    expect(root.code).toBe(0);
    expect(root.stdout).toContain("Exit codes: 0 done, 1 failed, 2 not accepted");
    for (const command of [
      "up",
      "serve",
      "router",
      "worker",
      "inspect",
      "predict",
      "status",
      "top",
      "verify",
      "bench",
      "demo",
      "doctor",
    ]) {
      expect(root.stdout).toMatch(new RegExp(`^ {2}${command} `, "m"));
    }
    expect(up.stdout).toContain("--replication");
    expect(up.stdout.replaceAll(/\s+/g, " ")).toContain("env: WINNOW_REPLICATION");
    for (const command of ["verify", "bench"]) {
      expect(winnow([command, "--help"]).stdout).not.toMatch(/default: (\[\]|\{\})/);
    }
  });

  test("an unknown flag or a value out of range is a usage error, exit code 2", () => {
    const unknown = winnow(["up", "--wrokers", "3"]);
    const range = winnow(["up", "--workers", "0"]);

    expect([unknown.code, range.code]).toEqual([2, 2]);
    expect(unknown.stderr).toContain("Did you mean --workers?");
    expect(range.stderr).toContain("a whole number from 1 to 64");
  });

  test.each([
    [["help", "nonsense"], "'nonsense': there are up, serve, "],
    [["nonsense", "--help"], "'nonsense': there are up, serve, "],
    [["help", "config", "nonsense"], "'nonsense': there are print, list, help"],
    [["help", "up", "more"], "'more': up has no commands"],
  ])(
    "help for a command that there is not is a usage error that names those there are: %j",
    (args, told) => {
      const ended = winnow(args);

      expect([ended.code, ended.stdout]).toEqual([2, ""]);
      expect(ended.stderr).toContain(`error: unknown command ${told}`);
    },
  );

  test("help leads to commands of commands", () => {
    const ended = winnow(["help", "config", "list"]);

    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain("Usage: winnow config list [options]");
  });

  test("a WINNOW_ variable that nothing reads stops what serves, and names the nearest", () => {
    const ended = winnow(["up", "--models", directory], { WINNOW_REPLICATON: "3" });

    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("WINNOW_REPLICATON (did you mean WINNOW_REPLICATION?)");
  });

  test("a flag of TensorFlow Serving without a meaning here gives a warning and goes on", () => {
    const ended = winnow(["inspect", directory, "--enable_batching=true"]);

    expect(ended.stderr).toContain("that have no meaning here: --enable_batching\n");
    expect(ended.stderr).toContain("There is no model in");
  });

  test("a port in use is told with the flags that choose another one", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    const role = ["--members", `w0@127.0.0.1:${port}`, "--host", "127.0.0.1"];

    const worker = winnow(["worker", ...role, "--id=w0", "--models=/no", `--port=${port}`]);
    const router = winnow(["router", ...role, "--port=0", `--grpc-port=${port}`]);
    const logged = winnow(["router", ...role, `--port=${port}`, "--log-format=json"]);
    taken.close();

    const message = `Cannot listen on 127.0.0.1:${port} (EADDRINUSE); choose another with`;
    const told = `UNAVAILABLE: ${message}`;
    expect(worker.stderr).toContain(`${told} --port and --host`);
    const [line] = logged.stderr.trim().split("\n").slice(-1) as [string];
    expect(JSON.parse(line)).toMatchObject({
      level: "error",
      code: "UNAVAILABLE",
      message: `${message} --port and --host`,
      msg: "the process ends",
    });
    expect(router.stderr).toContain(`${told} --grpc-port and --host`);
    // grpc-js says so too, by itself in lines of its own beside the log.
    expect(router.stderr).not.toMatch(/^E /mu);
    expect([worker.code, router.code]).toEqual([1, 1]);
  }, 30_000);

  test("a role without a way to find the others says which flags give one", () => {
    const ended = winnow(["router", "--port", "0"]);

    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("--redis URL (WINNOW_REDIS) or --members");
  });
});

describe("winnow demo and inspect", () => {
  test("writes models that inspect describes, on stdout and as JSON", () => {
    const models = path.join(directory, "demo");
    const demo = winnow(["demo", models, "--items", "300", "--users", "20", "--dim", "8"]);
    const text = winnow(["inspect", models, "--workers", "4", "--replication", "1"]);
    const asked = ["--workers", "4", "--replication", "1", "--json"];
    const json = winnow(["inspect", path.join(models, "movies/1"), ...asked]);
    const [report] = JSON.parse(json.stdout) as [
      {
        model: string;
        tables: { rows: number }[];
        workers: { bytes: number; bytesWithExtras: number }[];
      },
    ];

    expect(demo.stdout).toBe(`${models}\n`);
    expect(demo.stderr).toContain("Serve them with: winnow up --models");
    expect(text.stdout).toContain("Lookup(variables/0) → TopK(candidates, k=10)");
    expect(text.stdout).toContain(
      "Retrieve(movies, k=100) → Filter(kids = false and year ≥ 1970) → Rank(movies-ranking) → " +
        "Diversify(at most 3 per genres) → Limit(5)",
    );
    expect(text.stdout).toMatch(/^w3 /m);
    const [pipeline] = text.stdout.split("movies, version 1");
    expect(pipeline).not.toMatch(/^(table|worker) /m);
    expect(text.stdout).toMatch(/^fingerprint .*, no SHA256SUMS$/m);
    expect(text.stdout).not.toContain("not listed");
    expect(report.model).toBe("movies");
    expect(report.tables.map(({ rows }) => rows)).toEqual([21, 300]);
    // Neither table is cut, so a worker with room holds both, as one replica of each takes in all.
    const all = report.workers.reduce((total, { bytes }) => total + bytes, 0);
    expect(report.workers.map(({ bytesWithExtras }) => bytesWithExtras)).toEqual([
      all,
      all,
      all,
      all,
    ]);
  });

  test("warns of items that every router holds, and says why", () => {
    const model = path.resolve(import.meta.dirname, "data/savedmodels/distances");
    const text = winnow(["inspect", model]);

    expect(text.stdout).toMatch(
      /^warning: Every router holds the 1280 bytes of items, which are not cut .*operation Sum/m,
    );
  });

  test("tells by what scores are ranked, and which are masked", () => {
    const model = path.resolve(import.meta.dirname, "data/savedmodels/tied_scores");
    const text = winnow(["inspect", model]);

    expect(text.stdout).toContain("TopK(items, k=9, by sigmoid, masked by 1 test of the model's)");
    expect(text.stdout).toContain("TopK(items, k=9, by sigmoid)");
  });

  test("never writes over models that are there", () => {
    const models = path.join(directory, "twice");
    winnow(["demo", models, "--items", "20", "--users", "2"]);
    const again = winnow(["demo", models, "--items", "20", "--users", "2"]);

    expect(again.code).toBe(1);
    expect(again.stderr).toContain("ALREADY_EXISTS");
  });

  // Below /proc the system says ENOENT, though the directory above is there.
  test.skipIf(process.platform !== "linux").each([
    ["where nothing can be made", "/proc/winnow/demo", /ENOENT: .*mkdir '\/proc\/winnow'/],
    ["below a file", path.join(import.meta.filename, "demo"), /ENOTDIR: not a directory/],
    ["in place of a file", import.meta.filename, /ENOTDIR: not a directory/],
  ])("a demo %s ends with the directory and the cause", (_title, models, cause) => {
    const demo = winnow(["demo", models, "--items", "20", "--users", "2"]);

    expect(demo.code).toBe(1);
    expect(demo.stderr).toContain(`FAILED_PRECONDITION: Cannot write the demo to ${models}: `);
    expect(demo.stderr).toMatch(cause);
  });

  test("a demo for which there is no room leaves no part of a model", () => {
    const models = path.join(directory, "no-room");
    const limited = `ulimit -f 1; exec "$0" "$@"`;
    const demo = [process.execPath, script, "demo", models, "--items", "2000"];
    const ended = spawnSync("bash", ["-c", limited, ...demo], { encoding: "utf8" });

    expect(ended.status).toBe(1);
    expect(ended.stderr).toContain(`FAILED_PRECONDITION: Cannot write the demo to ${models}: `);
    expect(ended.stderr).toContain("EFBIG");
    expect(readdirSync(path.join(models, "movies"))).toEqual([]);
  });

  test.skipIf(process.platform !== "linux").each(["worker", "router", "up", "serve"])(
    "%s with too few descriptors says so in one line",
    (command) => {
      const limited = `ulimit -n 60; exec "$0" "$@"`;
      const source =
        command === "router" ? ["--members", "w0@127.0.0.1:1"] : ["--models", directory];
      const role = [process.execPath, script, command, ...source];
      const env = { ...process.env, NO_COLOR: "1" };
      const ended = spawnSync("bash", ["-c", limited, ...role], { encoding: "utf8", env });

      expect(ended.status).toBe(1);
      expect(ended.stderr).toMatch(
        /^FAILED_PRECONDITION: Cannot serve: this process may have 60 files .*\n$/,
      );
    },
  );

  test("a SavedModel without a version number gets advice where to move it", () => {
    const base = path.join(directory, "unversioned");
    mkdirSync(path.join(base, "movies"), { recursive: true });
    writeFileSync(path.join(base, "movies/saved_model.pb"), "");
    const ended = winnow(["up", "--models", base]);

    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain("holds a model but no version number");
    expect(ended.stderr).toContain(path.join(base, "movies", "1"));
  });

  test("MODEL_NAME and MODEL_BASE_PATH name a model as in TensorFlow Serving's image", () => {
    const ended = winnow(["up"], { MODEL_NAME: "absent", MODEL_BASE_PATH: directory });

    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(path.join(directory, "absent"));
  });

  test("a damaged model is named with its file", () => {
    const version = path.join(directory, "damaged/m/1");
    mkdirSync(version, { recursive: true });
    writeFileSync(path.join(version, "saved_model.pb"), "not a graph");
    const ended = winnow(["inspect", path.join(directory, "damaged")]);

    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/(DATA_LOSS|INVALID_ARGUMENT): m, version 1: .*saved_model\.pb/);
    expect(ended.stderr).not.toContain("    at ");

    const json = winnow(["inspect", path.join(directory, "damaged"), "--json"]);

    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject([{ model: "m", error: { code: "DATA_LOSS" } }]);
  });
});

describe("winnow inspect of an ONNX export", () => {
  test.each([
    ["the file alone does not tell", "undeclared", -1],
    ["the file declares to be that of the items", "false", 4],
  ])("refuses a query of another width than the items, which %s", (_title, name, width) => {
    const node = { op: "Identity", inputs: ["x"], outputs: ["y"] };
    const ends = { inputs: [floats("x", [-1, 3])], outputs: [floats("y", [-1, width])] };
    const version = writeExport(path.join(directory, name, "1"), {
      "model.onnx": modelOf({ nodes: [node], ...ends }),
      "items.npy": npy(["<f4", [2, 4]], new Float32Array(8)),
      "winnow.json": { retrieval: { items: { file: "items.npy" }, k: 1 } },
    });

    const ended = winnow(["inspect", version]);

    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(
      'output "y" of its graph is [?,3] where the search of "items.npy:array" takes [?,4]',
    );
  });

  test("refuses a query of another width than the items, which only a run tells", () => {
    const nodes = [
      { op: "Shape", inputs: ["x"], outputs: ["shape"] },
      { op: "Neg", inputs: ["shape"], outputs: ["negated"] },
      { op: "Neg", inputs: ["negated"], outputs: ["computed"] },
      { op: "Reshape", inputs: ["x", "computed"], outputs: ["y"] },
    ];
    const ends = { inputs: [floats("x", [-1, 3])], outputs: [floats("y", [-1, 4])] };
    const version = writeExport(path.join(directory, "computed", "1"), {
      "model.onnx": modelOf({ nodes, ...ends }),
      "items.npy": npy(["<f4", [2, 4]], new Float32Array(8)),
      "winnow.json": { retrieval: { items: { file: "items.npy" }, k: 1 } },
    });

    const ended = winnow(["inspect", version]);

    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(
      'output "y" of its graph is [?,3] where the search of "items.npy:array" takes [?,4]',
    );
  });
});

describe("winnow inspect of several models", () => {
  test("tells the others of one that cannot be served, names it, and fails", () => {
    const models = path.join(directory, "several");
    winnow(["demo", models, "--items", "20", "--users", "2"]);
    mkdirSync(path.join(models, "broken/1"), { recursive: true });
    writeFileSync(path.join(models, "broken/1/saved_model.pb"), "not a graph");
    // A snapshot of a file system is none of them.
    mkdirSync(path.join(models, ".snapshot/1"), { recursive: true });
    writeFileSync(path.join(models, ".snapshot/1/saved_model.pb"), "not a graph");
    const text = winnow(["inspect", models]);
    const json = winnow(["inspect", models, "--json"]);

    expect([text.code, json.code]).toEqual([1, 1]);
    expect(text.stdout).toMatch(/broken, version 1 .*\ncannot be served: DATA_LOSS: .*saved_model/);
    expect(text.stdout).toContain("movies, version 1");
    expect(text.stderr).toContain("1 of 5 models cannot be served: broken");
    expect(JSON.parse(json.stdout)).toMatchObject([
      { model: "broken", error: { code: "DATA_LOSS" } },
      { model: "home-feed" },
      { model: "movies" },
      { model: "movies-ranking" },
      { model: "similar-movies" },
    ]);
  });
});

describe("winnow up", () => {
  test("serves the others of a model that is broken, says which and why, and speaks gRPC where it is asked to", async () => {
    const models = path.join(directory, "one-broken");
    winnow(["demo", models, "--items", "20", "--users", "2"]);
    writeFileSync(path.join(models, "movies-ranking/1/saved_model.pb"), "not a graph");
    renameSync(path.join(models, "home-feed"), path.join(models, "My Feed"));
    const authority = testAuthority();
    const sslConfig = path.join(directory, "ssl.cfg");
    writeFileSync(sslConfig, sslText(authority.issue({ names: ["localhost"] })));
    const [port, grpcPort] = (await supplyPorts(2)) as [number, number];
    const flags = ["--workers", "1", "--port", String(port), "--log-level", "silent"];
    flags.push("--grpc-port", String(grpcPort), "--ssl_config_file", sslConfig);
    const up = spawn(process.execPath, [script, "up", "--models", models, ...flags], {
      env: { ...process.env, NO_COLOR: "1" },
    });
    let told = "";
    up.stdout.on("data", (data: Buffer) => (told += data.toString("utf8")));
    up.stderr.on("data", (data: Buffer) => (told += data.toString("utf8")));
    try {
      await vi.waitFor(() => expect(told).toContain("up after"), { timeout: 60_000, interval: 50 });
      expect(await handshake({ port: grpcPort }, authority.cert)).toBe("h2");
    } finally {
      up.kill("SIGTERM");
    }

    expect(told).toContain(`gRPC on 127.0.0.1:${grpcPort}`);
    expect(told).toMatch(/^ready {3}movies, version 1$/m);
    expect(told).toMatch(/^failed {2}movies-ranking, version 1: .*saved_model\.pb/m);
    expect(told).toMatch(
      /^failed {2}My Feed, version 1: My Feed cannot be a model's name: write /m,
    );
  });

  test.skipIf(!existsSync("/dev/full"))("goes on where a full disk takes no output", async () => {
    const models = path.join(directory, "full-output");
    winnow(["demo", models, "--items", "20", "--users", "2"]);
    const [port] = (await supplyPorts(1)) as [number];
    const full = openSync("/dev/full", "w");
    const flags = ["--workers", "1", "--port", String(port), "--log-level", "silent"];
    const up = spawn(process.execPath, [script, "up", "--models", models, ...flags], {
      env: { ...process.env, NO_COLOR: "1" },
      stdio: ["ignore", full, "pipe"],
    });
    closeSync(full);
    let told = "";
    up.stderr!.on("data", (data: Buffer) => (told += data.toString("utf8")));
    try {
      await vi.waitFor(() => expect(told).toContain("up after"), { timeout: 60_000, interval: 50 });
      // The end of the process would come in a later turn of its event loop.
      const isOver = await Promise.race([once(up, "exit"), delay(300, false)]);

      expect(isOver).toBe(false);
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200);
    } finally {
      up.kill("SIGTERM");
    }
  });

  test("refuses encryption that is not there, as TensorFlow Serving's flag asks for it", () => {
    const ended = winnow(["serve", "--use_alts_credentials=true"]);

    expect([ended.code, ended.stderr]).toEqual([
      2,
      expect.stringContaining("there is no ALTS here"),
    ]);
  });

  test("ends as a process of it does that refuses its settings, since another start would not help", async () => {
    const [rest] = (await supplyPorts(1)) as [number];
    const config = path.join(directory, "no-models.config");
    writeFileSync(config, "");
    const ports = ["--host=127.0.0.1", "--port=0", `--rest_api_port=${rest}`];

    const ended = winnow(["serve", ...ports, "--model_config_file", config]);

    // Worker and router refuse them both; one of them ends first.
    expect(ended.stderr).toMatch(
      /INVALID_ARGUMENT: (?:worker w0|router) ended \(2\) while starting/,
    );
    expect(ended.code).toBe(2);
  }, 30_000);

  test("refuses what it has no port for", () => {
    const ended = winnow(["up", "--models", directory, "--ssl_config_file", "ssl.cfg"]);

    expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining("set --grpc-port")]);
  });
});

describe("winnow predict", () => {
  test("says what to do when nothing answers, and when the instances are no JSON", () => {
    const silent = winnow(["predict", "movies", '["1"]', "--url", "http://127.0.0.1:1"]);
    const broken = winnow(["predict", "movies", "[1"]);

    const list = winnow(["predict", "movies", '["1"]', "--exclude", "7,"]);

    expect([silent.code, broken.code, list.code]).toEqual([1, 2, 2]);
    expect(list.stderr).toContain(
      'Cannot read --exclude 7, as JSON; write for example \'["7","9"]\'',
    );
    expect(silent.stderr).toContain("winnow up --models DIR");
    expect(broken.stderr).toContain("write for example '[\"42\"]'");
  });
});

describe("winnow status and winnow top", () => {
  test("status ends with 2 where nobody answers, and says whom it asked", () => {
    const silent = winnow(["status", "http://127.0.0.1:1"]);
    const variable = winnow(["status", "--json"], { WINNOW_URL: "http://127.0.0.1:2" });

    expect([silent.code, silent.stdout]).toEqual([2, ""]);
    expect(silent.stderr).toMatch(
      /^UNAVAILABLE: No router answers at http:\/\/127\.0\.0\.1:1: .*REFUSED/,
    );
    expect([variable.code, variable.stdout]).toEqual([2, ""]);
    expect(variable.stderr).toContain("http://127.0.0.1:2");
    expect(winnow(["status", "127.0.0.1:8501"]).stderr).toBe(
      "INVALID_ARGUMENT: 127.0.0.1:8501 is no router's address; write for example http://127.0.0.1:8501\n",
    );
  });

  test("top says that it needs a terminal, and what does not", () => {
    const ended = winnow(["top", "http://127.0.0.1:1"]);

    expect(ended.code).toBe(1);
    expect(ended.stdout).toBe("");
    expect(ended.stderr).toContain("winnow status prints the same once");
  });

  test("a file without a key is named, and --help tells the exit codes", () => {
    const ended = winnow(["status", "--key-file", path.join(directory, "no-key")]);
    const help = winnow(["status", "--help"]);

    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("no-key");
    expect(help.stdout.replaceAll(/\s+/g, " ")).toContain("0 ok, 1 degraded, 2 down or no answer");
    expect(help.stdout).toContain("WINNOW_API_KEY_FILE");
  });
});

describe("winnow doctor", () => {
  interface Told {
    readonly isWell: boolean;
    readonly findings: readonly {
      readonly subject: string;
      readonly state: string;
      readonly text: string;
    }[];
    readonly gpus: readonly unknown[];
  }
  const free = ["--port", "0", "--worker-port", "0"];
  /** A GPU in software takes 8 s of processor time; `gpu/survey-start.test.ts` opens one. */
  const withoutGpu = { VK_DRIVER_FILES: "/absent/icd.json", VK_ICD_FILENAMES: "/absent/icd.json" };

  test("tells of Node, cores, memory, the CPU scan, the GPU, Redis and ports, and exits 0", () => {
    const text = winnow(["doctor", ...free], withoutGpu);
    const json = winnow(["doctor", ...free, "--json"], withoutGpu);
    const told = JSON.parse(json.stdout) as Told;

    expect([text.code, json.code]).toEqual([0, 0]);
    expect(text.stdout).toMatch(new RegExp(`^good +Node +${process.versions.node}`, "m"));
    expect(text.stdout).toContain("Winnow can run here.");
    const subjects = [
      "Node",
      "cores",
      "memory",
      "CPU scan",
      "GPU",
      "Redis",
      "REST port",
      "worker port",
    ];
    expect(told.findings.map(({ subject }) => subject)).toEqual(subjects);
    expect(told.isWell).toBe(true);
  });

  test("a GPU that is asked for and not there is a fault that names the driver file, exit code 1", () => {
    const ended = winnow(["doctor", ...free, "--accelerator", "gpu"], withoutGpu);

    expect(ended.code).toBe(1);
    expect(ended.stdout).toMatch(
      /^fault +GPU +Cannot open a GPU: .*(npm install|libvulkan1|\/absent\/icd\.json)/m,
    );
    expect(ended.stdout).toContain("Mend each fault");
  });

  test("a Redis that does not answer and a port in use are faults where they were given", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    const redis = ["--redis", "redis://127.0.0.1:1"];
    const ports = ["--port", String(port), "--worker-port", "0"];
    const ended = winnow(["doctor", ...redis, ...ports], withoutGpu);
    server.close();

    expect(ended.code).toBe(1);
    expect(ended.stdout).toMatch(/^fault +Redis +Redis does not answer: .*ECONNREFUSED/m);
    expect(ended.stdout).toMatch(new RegExp(`^fault +REST port .*:${port} .*--port`, "m"));
  });

  test("--help says what it takes, and an unknown accelerator is a usage error", () => {
    const help = winnow(["doctor", "--help"]);
    const wrong = winnow(["doctor", "--accelerator", "tpu"]);

    expect([help.code, wrong.code]).toEqual([0, 2]);
    expect(help.stdout).toContain("--accelerator");
    expect(help.stdout).toContain("--json");
  });
});

test("a reader that stops reading ends nothing with a stack trace", () => {
  const command = `"${process.execPath}" "${script}" k8s render | head -n 1`;

  const { stdout, stderr } = spawnSync("sh", ["-c", command], { encoding: "utf8" });

  expect(stdout.split("\n")).toHaveLength(2);
  expect(stderr).not.toMatch(/EPIPE|at .*:\d+/);
});

test.skipIf(!existsSync("/dev/full"))("output that a full disk does not take is one error", () => {
  const full = openSync("/dev/full", "w");
  const { status, stderr } = spawnSync(process.execPath, [script, "config", "list"], {
    encoding: "utf8",
    stdio: ["ignore", full, "pipe"],
    env: { ...process.env, NO_COLOR: "1" },
  });
  closeSync(full);

  expect(stderr).toBe(
    "UNAVAILABLE: Cannot write to the standard output: ENOSPC: no space left on device, write\n",
  );
  expect(status).toBe(1);
});

test("the command is installed as a bin of the workspace", () => {
  const root = path.resolve(import.meta.dirname, "..");
  const version = execFileSync("npx", ["winnow", "--version"], { cwd: root, encoding: "utf8" });

  expect(version.trim()).toMatch(/^\d+\.\d+\.\d+$/);
});

describe("the log", () => {
  const module = path.resolve(
    import.meta.dirname,
    "../packages/winnow/dist/process/process-log.js",
  );
  const logged = (format: string): string => {
    const code = `
      import { processLog } from ${JSON.stringify(module)};
      const log = processLog({ level: "info", process: "worker w1", format: ${format} });
      log.debug("not told");
      log.warn("version failed", { model: "movies", error: new Error("it is cut") });`;
    const args = ["--input-type=module", "--eval", code];
    const env = { ...process.env, NO_COLOR: "1" };
    return spawnSync(process.execPath, args, { encoding: "utf8", env }).stderr;
  };
  const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/;

  test.each(["undefined", '"json"'])("is JSON away from a terminal (format %s)", (format) => {
    const text = logged(format);

    const expected = { level: "warn", process: "worker w1", msg: "version failed" };
    const line = { ...expected, time: expect.stringMatching(time) as string };
    expect(JSON.parse(text)).toEqual({ ...line, model: "movies", error: "it is cut" });
  });

  test("as text is one line an event, whatever a client called its model", () => {
    const code = `
      import { processLog } from ${JSON.stringify(module)};
      const log = processLog({ level: "info", process: "router", format: "text" });
      for (const model of ["a\\nb", "\\u001b[31m", "\\u009b2J", "a\\u2028b", 'a"b', "Zürich"])
        log.info("request", { model });`;
    const args = ["--input-type=module", "--eval", code];
    const env = { ...process.env, NO_COLOR: "1" };

    const { stderr } = spawnSync(process.execPath, args, { encoding: "utf8", env });

    const told = stderr.split("\n").map((line) => line.split("model=")[1]);
    expect(told).toEqual([
      String.raw`"a\nb"`,
      String.raw`"\u001b[31m"`,
      String.raw`"\u{9b}2J"`,
      String.raw`"a\u{2028}b"`,
      String.raw`"a\"b"`,
      "Zürich",
      undefined,
    ]);
  });

  test("is lines of time, level, process, event and fields where text is asked for", () => {
    const [line = "", ...rest] = logged('"text"').split("\n");

    expect(line.replace(time, "TIME")).toBe(
      'TIME  warn   worker w1  version failed  model=movies error="it is cut"',
    );
    expect(rest).toEqual([""]);
  });
});

test("a folder that was removed under the command is told, where a path is relative to it", () => {
  const gone = mkdtempSync(path.join(directory, "gone-"));
  const command = `rmdir '${gone}' && exec '${process.execPath}' '${script}' inspect models`;

  const { status, stderr } = spawnSync("sh", ["-c", command], {
    cwd: gone,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });

  expect(stderr).toMatch(/^FAILED_PRECONDITION: The folder in which this command was started no /);
  expect([status, stderr.split("\n")]).toEqual([1, [expect.anything(), ""]]);
});

describe("a flag that is empty, as where a script's variable is not set", () => {
  test.each([
    [
      ["router", "--members", "w0@h:1", "--host", ""],
      "It must be an address or a name; 0.0.0.0 is all interfaces.",
    ],
    [
      ["worker", "--members", "w0@h:1", "--host", " "],
      "It must be an address or a name; 0.0.0.0 is all interfaces.",
    ],
    [["router", "--members", ""], "INVALID_ARGUMENT: Members find each other through --redis URL"],
    [["router", "--members", " "], "INVALID_ARGUMENT: Members find each other through --redis URL"],
    [["worker", "--members", "w0@h:1", "--id", ""], 'INVALID_ARGUMENT: --id is ""'],
    [
      ["router", "--members", "w0@h:1", "--api-keys", ""],
      "It must name a file of keys; leave it out to answer everybody without a key.",
    ],
    [
      ["worker", "--members", "w0@h:1", "--api-keys", " "],
      "It must name a file of keys; leave it out to answer everybody without a key.",
    ],
    [
      ["up", "--api-keys", ""],
      "It must name a file of keys; leave it out to answer everybody without a key.",
    ],
    [
      ["serve", "--api-keys", ""],
      "It must name a file of keys; leave it out to answer everybody without a key.",
    ],
  ])("is not taken for everything or nothing: %j", (args, text) => {
    const ended = winnow(args);

    expect(ended.stderr).toContain(text);
    expect(ended.code).toBe(2);
  });

  test.each([["WINNOW_HOST"], ["WINNOW_API_KEYS"], ["WINNOW_TLS_CLIENT_CA"], ["WINNOW_CONFIG"]])(
    "is not taken for everything in a variable either: %s",
    (name) => {
      const ended = winnow(["router", "--members", "w0@h:1"], { [name]: "" });

      expect(ended.stderr).toContain(`value '' from env '${name}' is invalid`);
      expect(ended.code).toBe(2);
    },
  );

  test.each([
    ["WINNOW_SSL_CONFIG_FILE", "it must name a file; unset it to have none"],
    ["WINNOW_REDIS_PASSWORD", "set it to the password of Redis, or unset it"],
  ])("is not taken for none in %s, which no parser reads", (name, remedy) => {
    const ended = winnow(["router", "--redis", "redis://127.0.0.1:1", "--port", "0"], {
      [name]: "",
    });

    expect(ended.stderr).toContain(`INVALID_ARGUMENT: ${name} is empty`);
    expect(ended.stderr).toContain(remedy);
    expect(ended.code).toBe(2);
  });

  test("is not taken for none in a file of settings", () => {
    const file = path.join(directory, "empty.yaml");
    writeFileSync(file, 'port: 0\ntls-client-ca: ""\n');

    const ended = winnow(["router", "--members", "w0@h:1", "--config", file]);

    expect(ended.stderr).toContain(
      `${file}, line 2: tls-client-ca is "". It must name a file; leave it out to ask no client`,
    );
    expect(ended.code).toBe(2);
  });
});
