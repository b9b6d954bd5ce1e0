// `winnow serve --routers 2`: two processes answer on one port. Both get connections, one that is silent, dead or not
// ready costs nobody who connects then, a scrape shows both, no flood of connections piles up in front of them, and
// SIGTERM loses no request.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { Agent, get } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { clientOf } from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { supplyPorts } from "../port-supply.ts";
import { pause } from "./running-cluster.ts";
import { Served, answered, askedBy, killServed, winnowScript } from "./serve-process.ts";

const models = mkdtempSync(path.join(tmpdir(), "winnow-shared-"));

beforeAll(async () => {
  const args = [winnowScript, "demo", models, "--items", "200", "--users", "20"];
  await once(spawn(process.execPath, args, { stdio: "ignore" }), "exit");
});
afterEach(killServed);
afterAll(() => rmSync(models, { recursive: true, force: true }));

/** Two routers and their worker, once both routers answer. */
async function twoRouters() {
  const [grpc, rest] = (await supplyPorts(2)) as [number, number];
  const place = ["--host=127.0.0.1", `--port=${grpc}`, `--rest_api_port=${rest}`];
  const served = new Served([...place, "--models", models, "--routers=2"]);
  const told = (await served.line("serving")) as { processes: Readonly<Record<string, number>> };
  const url = `http://127.0.0.1:${rest}`;
  const predict = `${url}/v1/models/movies:predict`;
  await answered(predict);
  // The other one may be behind, and know another model before this one.
  for (const router of ["r0", "r1"]) {
    await expect
      .poll(() => metricsOf(url))
      .toContain(`winnow_model_version{router="${router}",model="movies"}`);
  }
  return { served, url, predict, grpc, processes: told.processes };
}

/** The status of one request on a connection of its own. */
async function askedOnce(url: string): Promise<number | string> {
  const agent = new Agent({ keepAlive: false });
  const status = await askedBy(agent, url);
  agent.destroy();
  return status;
}

const metricsOf = (url: string): Promise<string> => pageOf(`${url}/monitoring/prometheus/metrics`);

/** A page, asked for on a connection of its own. */
function pageOf(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const asked = get(url, { agent: false }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => (text += part));
      answer.on("end", () => resolve(text)).on("error", reject);
    });
    asked.on("error", reject);
  });
}

/** Requests that each router counts, by its own count, of one API. */
async function counted(url: string, api: "REST" | "GRPC"): Promise<readonly number[]> {
  const samples = (await metricsOf(url)).matchAll(
    /^:tensorflow:serving:request_latency_count\{router="r(\d)",(.*)\} (\d+)$/gm,
  );
  const counts = [0, 0];
  for (const [, router, labels = "", count] of samples) {
    if (labels.includes(`entrypoint="${api}"`)) counts[Number(router)]! += Number(count);
  }
  return counts;
}

test("both routers take connections, and a scrape of one counts what both did", async () => {
  const { url, predict, grpc } = await twoRouters();
  const [rest, calls] = [await counted(url, "REST"), await counted(url, "GRPC")];
  const agents = Array.from({ length: 24 }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  // One connection after the other: of many at once, the router that has less to do takes more.
  const statuses: (number | string)[] = [];
  for (const agent of agents) {
    statuses.push(await askedBy(agent, predict));
    await pause(20);
  }
  statuses.push(...(await Promise.all(agents.map((agent) => askedBy(agent, predict)))));
  for (const agent of agents) agent.destroy();
  const users = {
    dtype: "DT_STRING",
    tensor_shape: { dim: [{ size: "1" }] },
    string_val: [Buffer.from("1")],
  };
  const question = { model_spec: { name: "movies" }, inputs: { input_1: users } };
  for (let client = 0; client < 24; client++) {
    const connection = clientOf("PredictionService", grpc);
    await connection.call("Predict", question);
    connection.close();
  }
  const report = JSON.parse(await pageOf(`${url}/v1/cluster`)) as { readonly router: unknown };
  const [restAfter, callsAfter] = [await counted(url, "REST"), await counted(url, "GRPC")];

  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(report.router).toMatchObject({ name: expect.stringMatching(/^r[01]$/) as unknown });
  const asked = restAfter.map((count, router) => count - rest[router]!);
  const called = callsAfter.map((count, router) => count - calls[router]!);
  expect([asked[0]! + asked[1]!, called[0]! + called[1]!]).toEqual([48, 24]);
  expect(Math.min(...asked, ...called)).toBeGreaterThanOrEqual(1);
}, 90_000);

test("a router that is silent, dies and comes back fails nobody who connects then", async () => {
  const { served, url, predict, processes } = await twoRouters();
  const statuses = new Map<number | string, number>();
  const over = new AbortController();
  const ask = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const status = await askedOnce(predict);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  process.kill(processes["router r1"]!, "SIGSTOP");
  const asking = Array.from({ length: 4 }, ask);
  await expect.poll(() => statuses.get(200) ?? 0).toBeGreaterThanOrEqual(20);
  const text = await metricsOf(url);
  process.kill(processes["router r1"]!, "SIGKILL");
  await served.line("process is back");
  const before = statuses.get(200)!;
  await expect.poll(() => statuses.get(200)!).toBeGreaterThanOrEqual(before + 40);
  over.abort();
  await Promise.all(asking);

  expect([...statuses.keys()]).toEqual([200]);
  expect(text).toContain('winnow_router_up{router="r1"} 0');
  await expect.poll(() => metricsOf(url)).toContain('winnow_router_up{router="r1"} 1');
}, 120_000);

test.runIf(process.platform === "linux")(
  "clients that only connect and leave do not pile up in front of the routers",
  async () => {
    const { served, predict } = await twoRouters();
    let isOver = false;
    const churn = (): void => {
      if (isOver) return;
      const socket = connect(Number(new URL(predict).port), "127.0.0.1", () => {
        socket.write("POST /v1/mod");
        socket.destroy();
        setImmediate(churn);
      });
      socket.on("error", () => setImmediate(churn));
    };
    for (let loop = 0; loop < 8; loop++) churn();
    await pause(2000);
    const descriptors = readdirSync(`/proc/${served.process.pid}/fd`).length;
    const statuses = await Promise.all(Array.from({ length: 8 }, () => askedOnce(predict)));
    isOver = true;

    expect(descriptors).toBeLessThan(64);
    expect(new Set(statuses)).toEqual(new Set([200]));
  },
  90_000,
);

test("where all routers die at once, nobody who was connecting waits for ever", async () => {
  const { served, predict, processes } = await twoRouters();
  const pids = [processes["router r0"]!, processes["router r1"]!];
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  const asked = Array.from({ length: 6 }, () => askedOnce(predict));
  await pause(500);
  for (const pid of pids) process.kill(pid, "SIGKILL");

  expect(await Promise.all(asked)).toHaveLength(6);
  await served.line("process is back");
  await expect.poll(() => askedOnce(predict)).toBe(200);
}, 90_000);

test("SIGTERM ends both routers with code 0 and every request that they took answered", async () => {
  const { served, predict } = await twoRouters();
  const ends = new Set<number | string>();
  const ask = async (): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    let last: number | string = 200;
    while (last === 200) last = await askedBy(agent, predict);
    // Who connects in the instant in which the port is closed is reset before a router has seen the connection.
    while (last === "ECONNRESET, new") last = await askedBy(agent, predict);
    ends.add(last);
    agent.destroy();
  };
  const asking = Array.from({ length: 8 }, ask);
  await pause(300);
  served.process.kill("SIGTERM");
  await Promise.all(asking);

  expect([...ends]).toEqual(["ECONNREFUSED, new"]);
  expect(await served.ended()).toBe(0);
}, 90_000);

test("several routers with nothing but a socket to share are refused", async () => {
  const socket = path.join(models, "grpc.sock");
  const ports = ["--port=0", "--rest_api_port=0", `--grpc_socket_path=${socket}`];
  const served = new Served(["--host=127.0.0.1", ...ports, "--models", models, "--routers=2"]);

  expect(await served.ended()).toBe(2);
  expect(served.log).toContain("--routers=2 needs a port to share");
}, 30_000);
