// The table of settings is held to the code: every field of a `*-settings.ts` has a flag, every default that
// the table tells is the one in effect, every flag of it is read, and docs/settings.md says the same.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { resolveGrpcOptions } from "../packages/router/src/grpc/grpc-settings.ts";
import { resolveHttpOptions } from "../packages/router/src/http/http-settings.ts";
import { resolveRouterOptions } from "../packages/router/src/router-settings.ts";
import { servingCommands } from "../packages/winnow/src/command-line/serving-commands.ts";
import { createCommandLine } from "../packages/winnow/src/command-line/command-line.ts";
import { variablesOf } from "../packages/winnow/src/command-line/setting-variables.ts";
import {
  defaultOf,
  flagNameOf,
  isFraction,
  rangeOf,
} from "../packages/winnow/src/settings/limit-flags.ts";
import {
  type LimitOrTime,
  type SettingOwner,
  limitsAndTimes,
} from "../packages/winnow/src/settings/limits-and-times.ts";
import { settingsDocument } from "../packages/winnow/src/settings/settings-document.ts";
import { resolveWorkerOptions } from "../packages/worker/src/worker-settings.ts";
import { supplyPorts } from "./port-supply.ts";
import { readTracked as read } from "./tracked-files.ts";

const script = path.resolve(import.meta.dirname, "../packages/winnow/bin/winnow.js");
const directory = mkdtempSync(path.join(tmpdir(), "winnow-settings-"));
const commands = Object.values(servingCommands).map((make) => make());
const running: ChildProcess[] = [];

afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(directory, { recursive: true, force: true });
});

/** Memory with which no default is lower, as with any number of descriptors. */
const AMPLE_BYTES = 2 ** 32;

/** What an owner's options become; two that differ anywhere in what they do differ here. */
const RESOLVE: Readonly<Record<SettingOwner, (options: object, memoryBytes?: number) => object>> = {
  router: (options, memoryBytes = AMPLE_BYTES) => resolveRouterOptions(options, memoryBytes),
  http: (options, memoryBytes = AMPLE_BYTES) => resolveHttpOptions(options, memoryBytes, Infinity),
  grpc: (options, memoryBytes = AMPLE_BYTES) => resolveGrpcOptions(options, memoryBytes, Infinity),
  worker: (options) =>
    resolveWorkerOptions({ modelsPath: "/m", incarnation: 1, memoryBytesMax: 1, ...options }),
};

/** Where the fields of an owner's options are declared. */
const DECLARED: Readonly<Record<SettingOwner, readonly (readonly [file: string, name: string])[]>> =
  {
    router: [
      ["packages/router/src/limits/request-limits.ts", "RequestLimits"],
      ["packages/router/src/router-settings.ts", "RouterSettings"],
    ],
    http: [["packages/router/src/http/http-settings.ts", "HttpSettings"]],
    grpc: [["packages/router/src/grpc/grpc-settings.ts", "GrpcSettings"]],
    worker: [["packages/worker/src/worker-settings.ts", "WorkerOptions"]],
  };

/** Fields that a flag of another name sets, or that no person is to set. */
const OTHERWISE: Readonly<Record<string, string>> = {
  "router.replication": "replication",
  "router.modelReplication": "model-replication",
  "router.swapReplicas": "swap-replicas",
  "router.routerTableBytesMax": "router-table-bytes",
  "router.allowUnavailableLabels": "allow_version_labels_for_unavailable_models",
  "router.labels": "model_config_file",
  "router.routerId": "none: a name in logs",
  "http.requestTimeoutMs": "rest_api_timeout_in_ms",
  "http.cors": "rest_api_enable_cors_support",
  "http.metricsPath": "monitoring_config_file",
  "grpc.requestTimeoutMs": "rest_api_timeout_in_ms",
  "worker.release": "none: what was built",
  "worker.workerId": "id",
  "worker.incarnation": "none: the time of the start",
  "worker.host": "host",
  "worker.port": "port",
  "worker.advertisedAddress": "advertise",
  "worker.modelsPath": "models",
  "worker.models": "model_config_file",
  "worker.modelReloadRoot": "model_reload_root",
  "worker.modelCache": "model-cache-dir",
  "worker.versionPolicy": "model_config_file",
  "worker.pollIntervalMs": "file_system_poll_wait_seconds",
  "worker.replication": "replication",
  "worker.modelReplication": "model-replication",
  "worker.swapReplicas": "swap-replicas",
  "worker.partitionBytes": "partition-bytes",
  "worker.extraMemoryRatio": "extra-memory",
  "worker.accelerator": "accelerator",
  "worker.memoryBytesMax": "memory-bytes",
  "worker.threads": "threads",
  "worker.machine": "machine",
  "worker.maxLoadRetries": "max_num_load_retries",
  "worker.loadRetryIntervalMs": "load_retry_interval_micros",
};

function fieldsOf(owner: SettingOwner): string[] {
  return DECLARED[owner].flatMap(([file, name]) => {
    const text = read(file);
    const start = text.indexOf(`export interface ${name} `);
    const body = text.slice(start, text.indexOf("\n}\n", start));
    return Array.from(body.matchAll(/^ {2}readonly (\w+)\??:/gm), (match) => match[1] ?? "");
  });
}

/** A value that is allowed and not the default. */
function otherValue(limit: LimitOrTime): number | boolean {
  if (typeof limit.fallback === "boolean") return !limit.fallback;
  if (isFraction(limit)) return limit.fallback / 2;
  const [min, max] = rangeOf(limit);
  return limit.fallback === max ? min : max;
}

describe("the table of limits and times", () => {
  test.each(["router", "http", "grpc", "worker"] as const)(
    "has every field of %s's settings, or says which flag sets it",
    (owner) => {
      const listed = limitsAndTimes.filter((limit) => limit.owner === owner);
      const names = new Set(listed.map(({ field }) => field));
      const fields = fieldsOf(owner);

      const missing = fields.filter(
        (field) => !names.has(field) && !(`${owner}.${field}` in OTHERWISE),
      );
      const unknown = [...names].filter((field) => !fields.includes(field));

      expect(fields.length).toBeGreaterThan(10);
      expect({ missing, unknown }).toEqual({ missing: [], unknown: [] });
    },
  );

  test("names flags that there are for what it leaves out", () => {
    const flags = new Set(commands.flatMap(({ options }) => options.map(({ long }) => long)));
    const wrong = Object.values(OTHERWISE).filter(
      (flag) => !flag.startsWith("none") && !flags.has(`--${flag}`),
    );

    expect(wrong).toEqual([]);
  });

  test("tells the defaults in effect, and every value it takes has an effect", () => {
    const wrong = limitsAndTimes.filter((limit) => {
      const resolve = RESOLVE[limit.owner];
      const bare = JSON.stringify(resolve({}));
      const same = JSON.stringify(resolve({ [limit.field]: limit.fallback }));
      const other = JSON.stringify(resolve({ [limit.field]: otherValue(limit) }));
      return bare !== same || bare === other;
    });

    expect(wrong).toEqual([]);
  });

  test.each([2 ** 28, 2 ** 30, 2 ** 31])(
    "tells which defaults are lower with %i bytes",
    (bytes) => {
      const inEffect = ({ owner, field }: LimitOrTime): unknown =>
        Reflect.get(RESOLVE[owner]({}, bytes), field);
      const routers = limitsAndTimes.filter(({ owner }) => owner !== "worker");

      const wrong = routers.filter((limit) => inEffect(limit) !== defaultOf(limit, bytes));
      const { bodyBytesInFlightMax, bodyReserveBytes, bodyBytesMax } = resolveHttpOptions(
        {},
        bytes,
      );

      expect(wrong).toEqual([]);
      expect(bodyBytesInFlightMax).toBe(bytes / 8);
      expect(bodyBytesInFlightMax - bodyReserveBytes).toBeGreaterThan(bodyBytesMax);
    },
  );

  test("a default has fewer connections where the process may have few descriptors", () => {
    const { connectionsMax } = resolveHttpOptions({}, AMPLE_BYTES, 1024);
    const overGrpc = resolveGrpcOptions({}, AMPLE_BYTES, 1024).connectionsMax;
    const given = resolveHttpOptions({ connectionsMax: 5000 }, AMPLE_BYTES, 1024);

    expect([connectionsMax, overGrpc, given.connectionsMax]).toEqual([480, 240, 5000]);
  });

  test("has defaults within the range of each, and flags and variables that are used once", () => {
    const outside = limitsAndTimes.filter((limit) => {
      const [min, max] = rangeOf(limit);
      const value = Number(limit.fallback);
      return (
        typeof limit.fallback === "number" && !isFraction(limit) && (value < min || value > max)
      );
    });
    const names = commands.map(({ options }) => options.map(({ long }) => long));

    expect(outside).toEqual([]);
    for (const flags of names) expect(new Set(flags).size).toBe(flags.length);
  });

  test("gives each its variable, which checks of variables know", () => {
    const known = variablesOf(createCommandLine("0.0.0"));
    const wanted = limitsAndTimes.map(
      (limit) => `WINNOW_${flagNameOf(limit).replaceAll("-", "_").toUpperCase()}`,
    );

    expect(wanted.filter((name) => !known.includes(name))).toEqual([]);
    expect(wanted).toContain("WINNOW_K_MAX");
    expect(wanted).toContain("WINNOW_HTTP_BODY_BYTES_MAX");
  });
});

test("docs/settings.md is what winnow config list --markdown prints", () => {
  expect(read("docs/settings.md")).toBe(settingsDocument(commands));
});

describe("a running router", () => {
  interface Told {
    readonly router: {
      readonly settings: Readonly<Record<string, unknown>>;
      readonly changedSettings: readonly string[];
    };
  }

  async function toldBy(url: string): Promise<Told> {
    for (;;) {
      const answer = await fetch(`${url}/v1/cluster`).catch(() => undefined);
      if (answer?.ok === true) return (await answer.json()) as Told;
      await new Promise((resolve) => {
        setTimeout(resolve, 50);
      });
    }
  }

  test("takes a flag before a variable, a variable before the file, the file before the default", async () => {
    const file = path.join(directory, "winnow.yaml");
    writeFileSync(
      file,
      "k-max: 100\ninstances-max: 200\nreplans-max: 3\nhttp-body-bytes-max: 5000\nthreads: 2\n",
    );
    const [port] = (await supplyPorts(1)) as [number];
    const args = ["router", "--port", String(port), "--members", "w0@127.0.0.1:1"];
    const env = {
      ...process.env,
      WINNOW_CONFIG: file,
      WINNOW_K_MAX: "101",
      WINNOW_REPLANS_MAX: "1",
    };
    running.push(
      spawn(process.execPath, [script, ...args, "--replans-max", "2"], { env, stdio: "ignore" }),
    );

    const { router } = await toldBy(`http://127.0.0.1:${port}`);

    expect(router.settings).toMatchObject({
      replansMax: 2,
      kMax: 101,
      instancesMax: 200,
      bodyBytesMax: 5000,
      filtersMax: 64,
    });
    expect(router.changedSettings.toSorted()).toEqual(
      expect.arrayContaining(["bodyBytesMax", "instancesMax", "kMax", "replansMax"]),
    );
  });
});

describe("winnow config", () => {
  const winnow = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    spawnSync(process.execPath, [script, "config", ...args], {
      encoding: "utf8",
      env: { ...process.env, NO_COLOR: "1", ...env },
    });

  test("print tells values and where they came from, and no secret", () => {
    const file = path.join(directory, "print.yaml");
    writeFileSync(file, "replication: 3\nmembers: [a@h:1, b@h:2]\nid: w7\n");
    const secrets = {
      WINNOW_REDIS: "redis://me:geheim@h:1/0",
      WINNOW_REDIS_PASSWORD: "geheim",
      WINNOW_SEEN_REDIS: "redis://:x/geheim#@geheim@h:2",
      WINNOW_OTLP_ENDPOINT: "http://h:3/traces?region=geheim&token=geheim",
    };

    const ended = winnow(["print", "router", "--config", file, "--hedge", "false"], {
      ...secrets,
      WINNOW_GRPC_CALLS_MAX: "9",
    });
    const lines = ended.stdout.split("\n").map((line) => line.split(/ {2,}/));

    expect(lines).toEqual(
      expect.arrayContaining([
        ["replication", "3", `${file}, line 1`],
        ["members", "a@h:1,b@h:2", `${file}, line 2`],
        ["hedge", "false", "flag"],
        ["grpc-calls-max", "9", "WINNOW_GRPC_CALLS_MAX"],
        ["k-max", "4096", "default"],
        ["redis", "redis://me:***@h:1/0", "WINNOW_REDIS"],
        ["seen-redis", "redis://:***@h:2", "WINNOW_SEEN_REDIS"],
        ["otlp-endpoint", "http://h:3/traces?region=***&token=***", "WINNOW_OTLP_ENDPOINT"],
        ["WINNOW_REDIS_PASSWORD", "(set, not shown)", "WINNOW_REDIS_PASSWORD"],
      ]),
    );
    expect(ended.stdout).not.toContain("geheim");
  });

  test("print --json is the same for machines, and refuses what the command would refuse", () => {
    const json = winnow(["print", "worker", "--worker-queue-rows-max", "7", "--json"]);
    const typo = winnow(["print", "worker", "--worker-queue-rows-maxx", "7"]);
    const variable = winnow(["print", "router"], { WINNOW_K_MAXX: "7" });
    const settings = JSON.parse(json.stdout) as { name: string; value: unknown; source: string }[];

    expect(settings).toContainEqual({ name: "worker-queue-rows-max", value: 7, source: "flag" });
    expect([typo.status, variable.status]).toEqual([2, 2]);
    expect(typo.stderr).toContain("Did you mean --worker-queue-rows-max?");
    expect(variable.stderr).toContain("WINNOW_K_MAXX (did you mean WINNOW_K_MAX?)");
  });

  test("list tells flags that --help leaves out", () => {
    const ended = winnow(["list"]);

    expect(ended.stdout).toContain("--k-max <n>  (WINNOW_K_MAX, default 4096)\n    largest k");
  });
});
