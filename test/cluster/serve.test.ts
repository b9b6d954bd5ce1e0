// `winnow serve` as one container is run: with the flags, ports and variables of TensorFlow Serving's model
// server, models that come later, processes that die, and SIGTERM in the middle of requests.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { testAuthority } from "../fixtures/certificates.ts";
import { handshake, sslText } from "../fixtures/grpc-certificates.ts";
import { pause } from "./running-cluster.ts";
import { Served, answered, askedBy, killServed, winnowScript } from "./serve-process.ts";
import { supplyPorts } from "../port-supply.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-serve-"));
const model = path.join(directory, "written/movies");
/** A process that is killed while it listens. */
const LEAVES_SOCKET =
  'require("net").createServer().listen(process.argv[1], () => process.kill(process.pid, 9))';
const PREDICT = `v1/models/movies:predict`;

beforeAll(async () => {
  const args = [winnowScript, "demo", path.dirname(model), "--items", "200", "--users", "20"];
  await once(spawn(process.execPath, args, { stdio: "ignore" }), "exit");
});
afterEach(killServed);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

test("takes TensorFlow Serving's command, waits for no model, and answers once one comes", async () => {
  const [grpc, rest] = (await supplyPorts(2)) as [number, number];
  const base = path.join(directory, "later");
  mkdirSync(path.join(base, "movies"), { recursive: true });
  const authority = testAuthority();
  const sslConfig = path.join(directory, "ssl.cfg");
  writeFileSync(sslConfig, sslText(authority.issue({ names: ["localhost"] })));
  const socket = path.join(directory, "grpc.sock");
  const dead = spawnSync(process.execPath, ["-e", LEAVES_SOCKET, socket]);
  const served = new Served(
    [
      `--ssl_config_file=${sslConfig}`,
      `--port=${grpc}`,
      `--rest_api_port=${rest}`,
      `--grpc_socket_path=${socket}`,
      "--use_alts_credentials=false",
      "--enable_batching=true",
      "--enable_grpc_healthcheck_service=true",
      "--rest_api_num_threads=16",
      "--file_system_poll_wait_seconds=1",
    ],
    { MODEL_NAME: "movies", MODEL_BASE_PATH: base, TF_CPP_MIN_LOG_LEVEL: "1" },
  );
  const told = await served.line("serving");
  cpSync(model, path.join(base, "movies"), { recursive: true });
  const answer = await answered(`http://127.0.0.1:${rest}/${PREDICT}`);

  const page = await fetch(`http://127.0.0.1:${rest}/console/`);

  expect(told).toMatchObject({ rest: `0.0.0.0:${rest}`, grpc: `0.0.0.0:${grpc}`, model: "movies" });
  expect([told["console"], page.status]).toEqual([
    expect.stringMatching(/^none: .*--api-keys/),
    404,
  ]);
  expect(JSON.parse(answer)).toMatchObject({ predictions: [{ output_2: { length: 3 } }] });
  expect(
    await served.line("settings of TensorFlow Serving that have no meaning here"),
  ).toMatchObject({
    flags: "--use_alts_credentials --enable_batching --rest_api_num_threads",
    variables: "TF_CPP_MIN_LOG_LEVEL",
  });
  expect(served.log.split("have no meaning here")).toHaveLength(2);
  expect(await served.line("router listening for gRPC")).toMatchObject({ port: grpc, tls: true });
  expect(await handshake({ port: grpc }, authority.cert)).toBe("h2");
  expect(dead.signal).toBe("SIGKILL");
  await served.line("router listening for gRPC on a socket");
  expect(await handshake({ path: socket }, authority.cert)).toBe("h2");
  expect(
    await served.line("others on the network can reach this process, which is not protected"),
  ).toMatchObject({ missing: [expect.any(String), expect.any(String)] });
}, 60_000);

test("starts a worker and a router again that die, and ends with code 0 on SIGTERM, answering what it took", async () => {
  const [rest] = (await supplyPorts(1)) as [number];
  const flags = ["--host=127.0.0.1", "--port=0", `--rest_api_port=${rest}`, "--models"];
  const served = new Served([...flags, path.dirname(model)]);
  const url = `http://127.0.0.1:${rest}/${PREDICT}`;
  const told = (await served.line("serving")) as {
    processes: Readonly<Record<string, number>>;
    console: string;
  };
  const { processes } = told;
  const page = await fetch(told.console);
  const first = await answered(url);
  for (const pid of Object.values(processes)) process.kill(pid, "SIGKILL");
  await served.line("process ended, starting it again");
  expect(await answered(url)).toBe(first);
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining("<html")]);

  const statuses = new Set<number | string>();
  const ask = async (): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let last: number | string = 200; last === 200;) {
      last = await askedBy(agent, url);
      // The kernel resets who connects in the instant in which a socket stops listening: nobody has accepted that
      // connection, and the next one is refused.
      if (last === "ECONNRESET, new") last = await askedBy(agent, url);
      if (last !== "ECONNREFUSED, new") statuses.add(last);
    }
    agent.destroy();
  };
  const asking = Array.from({ length: 4 }, ask);
  await pause(300);
  served.process.kill("SIGTERM");
  await Promise.all(asking);

  expect([...statuses]).toEqual([200]);
  expect(await served.ended()).toBe(0);
}, 90_000);

test("says which flag names another port where one is taken", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as { port: number };
  const [other] = (await supplyPorts(1)) as [number];
  const place = ["--host=127.0.0.1", "--models", path.dirname(model)];
  const rest = new Served([...place, "--port=0", `--rest_api_port=${port}`]);
  const grpc = new Served([...place, `--port=${port}`, `--rest_api_port=${other}`]);

  expect([await rest.ended(), await grpc.ended()]).toEqual([1, 1]);
  expect(rest.log).toContain(
    `127.0.0.1:${port} (EADDRINUSE); choose another port with --rest_api_port`,
  );
  expect(grpc.log).toContain("choose another port with --port");
  taken.close();
}, 30_000);

test("--rest_api_port=0 serves gRPC alone, here on a socket; one port for both is refused", async () => {
  const socket = path.join(directory, "alone.sock");
  const place = ["--host=127.0.0.1", "--models", path.dirname(model)];
  const both = new Served([...place, "--port=8501"]);
  const served = new Served([
    ...place,
    "--port=0",
    "--rest_api_port=0",
    `--grpc_socket_path=${socket}`,
  ]);

  const told = await served.line("serving");

  expect(told).toMatchObject({
    rest: "none",
    grpc: "none",
    console: "none: there is no REST port",
  });
  await served.line("router listening for gRPC on a socket");
  expect(served.log).not.toContain('"router listening"');
  served.process.kill("SIGTERM");
  expect(await served.ended()).toBe(0);
  expect(await both.ended()).toBe(2);
  expect(both.log).toContain("--port and --rest_api_port are both 8501");
}, 30_000);

test("--require-security names what is open, and does not start", async () => {
  const [rest] = (await supplyPorts(1)) as [number];
  const args = ["--port=0", `--rest_api_port=${rest}`, "--models", path.dirname(model)];
  const served = new Served([...args, "--require-security"]);

  expect(await served.ended()).toBe(1);
  expect(served.log).toContain(
    "there is missing: TLS for clients (--tls-cert, --tls-key); who may ask",
  );
  expect(served.log).not.toContain("--cluster-tls");
}, 30_000);
