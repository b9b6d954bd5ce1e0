// A Kubernetes control plane of a test's own, on the loopback: etcd and kube-apiserver, and, where they are found,
// kube-controller-manager and kube-scheduler. There are no machines behind it: nodes are objects, and their kubelets
// a stand-in (kubelets.ts). The programs are looked for where controller-runtime's envtest looks, in the folder
// that KUBEBUILDER_ASSETS names, and on PATH.

import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import { supplyPorts } from "../port-supply.ts";

/** What a command printed, and how it ended. */
export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Paths of the programs that are here. */
export interface ControlPlanePrograms {
  readonly apiServer: string;
  readonly etcd: string;
  /** Both or none: pods that nobody makes need no node. */
  readonly controllers?: { readonly manager: string; readonly scheduler: string };
}

const HOST = "127.0.0.1";
const TRY_MS = 200;
const OUTPUT_BYTES_MAX = 2 ** 26;
/** When a program is taken to hang while it starts; on an idle machine it takes 10 s. */
const START_MS_MAX = 240_000;

/** The programs; `undefined`, and says so on stderr, where kube-apiserver, etcd or kubectl is missing. */
export function findControlPlane(): ControlPlanePrograms | undefined {
  const [apiServer, etcd, manager, scheduler, kubectl] = [
    "kube-apiserver",
    "etcd",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
  ].map(findProgram);
  if (apiServer === undefined || etcd === undefined || kubectl === undefined) {
    process.stderr.write(
      "no kube-apiserver, etcd and kubectl on PATH or in $KUBEBUILDER_ASSETS: nothing is applied to an API server\n",
    );
    return undefined;
  }
  if (manager === undefined || scheduler === undefined) {
    process.stderr.write(
      "no kube-controller-manager and kube-scheduler: tests of pods on an API server are skipped\n",
    );
    return { apiServer, etcd };
  }
  return { apiServer, etcd, controllers: { manager, scheduler } };
}

function findProgram(name: string): string | undefined {
  const folders = [
    process.env["KUBEBUILDER_ASSETS"] ?? "",
    ...(process.env["PATH"] ?? "").split(path.delimiter),
  ];
  return folders
    .filter((folder) => folder !== "")
    .map((folder) => path.join(folder, name))
    .find((file) => existsSync(file));
}

/** The version of kube-apiserver, "v1.34.1". */
export function versionOf({ apiServer }: ControlPlanePrograms): string {
  return execFileSync(apiServer, ["--version"], { encoding: "utf8" }).trim().split(" ").at(-1)!;
}

/** One control plane, from `start` to `stop`. */
export class ControlPlane {
  readonly #directory = mkdtempSync(path.join(tmpdir(), "winnow-kubernetes-"));
  readonly #processes: ChildProcess[] = [];
  readonly #token = randomBytes(16).toString("hex");
  #port = 0;

  /** Starts the programs; resolves when the API server is ready and has its system namespaces. */
  static async start(programs: ControlPlanePrograms): Promise<ControlPlane> {
    const plane = new ControlPlane();
    try {
      await plane.#start(programs);
    } catch (error) {
      await plane.stop();
      throw error;
    }
    return plane;
  }

  async #start({ apiServer, etcd, controllers }: ControlPlanePrograms): Promise<void> {
    const [etcdPort, peerPort, port] = (await supplyPorts(3)) as [number, number, number];
    this.#port = port;
    const etcdUrl = `http://${HOST}:${etcdPort}`;
    const peerUrl = `http://${HOST}:${peerPort}`;
    this.#run(etcd, [
      `--data-dir=${this.#file("etcd")}`,
      "--unsafe-no-fsync",
      `--listen-client-urls=${etcdUrl}`,
      `--advertise-client-urls=${etcdUrl}`,
      `--listen-peer-urls=${peerUrl}`,
      `--initial-advertise-peer-urls=${peerUrl}`,
      `--initial-cluster=default=${peerUrl}`,
    ]);
    const { privateKey, publicKey } = generateKeyPairSync("rsa", {
      modulusLength: 2048,
      privateKeyEncoding: { type: "pkcs8", format: "pem" },
      publicKeyEncoding: { type: "spki", format: "pem" },
    });
    writeFileSync(this.#file("accounts.key"), privateKey);
    writeFileSync(this.#file("accounts.pub"), publicKey);
    writeFileSync(this.#file("tokens.csv"), `${this.#token},admin,admin,system:masters\n`);
    this.#run(apiServer, [
      `--etcd-servers=${etcdUrl}`,
      `--bind-address=${HOST}`,
      `--advertise-address=${HOST}`,
      "--endpoint-reconciler-type=none",
      `--secure-port=${port}`,
      `--cert-dir=${this.#file("certificates")}`,
      `--token-auth-file=${this.#file("tokens.csv")}`,
      "--authorization-mode=Node,RBAC",
      `--service-account-issuer=https://${HOST}:${port}`,
      `--service-account-key-file=${this.#file("accounts.pub")}`,
      `--service-account-signing-key-file=${this.#file("accounts.key")}`,
      "--service-cluster-ip-range=10.0.0.0/24",
    ]);
    await this.#until("kube-apiserver is ready", async () => {
      if (!existsSync(this.#file("certificates/apiserver.crt"))) return false;
      return (await this.request("GET", "/readyz")).status === 200;
    });
    await this.#until("its system namespaces are there", async () => {
      return (await this.request("GET", "/api/v1/namespaces/kube-system")).status === 200;
    });
    writeFileSync(this.#file("kubeconfig"), this.#kubeconfig());
    if (controllers !== undefined) this.#startControllers(controllers);
  }

  #startControllers({ manager, scheduler }: { manager: string; scheduler: string }): void {
    const shared = [
      `--kubeconfig=${this.#file("kubeconfig")}`,
      "--leader-elect=false",
      `--cert-dir=${this.#file("certificates")}`,
      "--secure-port=0",
    ];
    this.#run(manager, [
      ...shared,
      `--service-account-private-key-file=${this.#file("accounts.key")}`,
      // Nobody sends these nodes' heartbeats.
      "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller",
      "--horizontal-pod-autoscaler-sync-period=1s",
    ]);
    this.#run(scheduler, shared);
  }

  #run(program: string, args: readonly string[]): void {
    const log = openSync(this.#file(`${path.basename(program)}.log`), "a");
    this.#processes.push(spawn(program, args, { stdio: ["ignore", log, log] }));
  }

  #file(name: string): string {
    return path.join(this.#directory, name);
  }

  #kubeconfig(): string {
    const server = `https://${HOST}:${this.#port}`;
    const authority = this.#file("certificates/apiserver.crt");
    return JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "test", cluster: { server, "certificate-authority": authority } }],
      users: [{ name: "admin", user: { token: this.#token } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
      "current-context": "test",
    });
  }

  async #until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + START_MS_MAX;
    while (!(await isSo().catch(() => false))) {
      const ended = this.#processes.find((child) => child.exitCode !== null);
      if (ended !== undefined || performance.now() > end) {
        throw new Error(`${what}: not within ${START_MS_MAX} ms\n${this.logs()}`);
      }
      await new Promise((resolve) => setTimeout(resolve, TRY_MS));
    }
  }

  /** The last lines that the programs wrote, for a person. */
  logs(): string {
    return ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
      .map((name) => this.#file(`${name}.log`))
      .filter((file) => existsSync(file))
      .map((file) => `${file}\n${readFileSync(file, "utf8").split("\n").slice(-15).join("\n")}`)
      .join("\n");
  }

  /** Runs kubectl as an administrator; never throws for how it ends. */
  kubectl(args: readonly string[], input?: string): Promise<CommandResult> {
    return this.#command("kubectl", args, input);
  }

  /** Runs a script, without what the machine has its shells run first, whose kubectl is an administrator's. */
  bash(script: string): Promise<CommandResult> {
    return this.#command("bash", ["--norc", "-euo", "pipefail", "-c", script]);
  }

  #command(program: string, args: readonly string[], input?: string): Promise<CommandResult> {
    const env = { ...process.env, HOME: this.#directory, KUBECONFIG: this.#file("kubeconfig") };
    return new Promise((resolve) => {
      const child = execFile(
        program,
        args,
        { encoding: "utf8", maxBuffer: OUTPUT_BYTES_MAX, env },
        (error, stdout, stderr) => {
          const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
          resolve({ code, stdout, stderr });
        },
      );
      child.stdin?.end(input ?? "");
    });
  }

  /** Asks the API server itself; a patch is a strategic merge. */
  request(
    method: "GET" | "POST" | "PATCH" | "DELETE",
    location: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const type = `application/${method === "PATCH" ? "strategic-merge-patch+" : ""}json`;
    return new Promise((resolve, reject) => {
      const outgoing = httpsRequest(
        {
          host: HOST,
          port: this.#port,
          path: location,
          method,
          ca: readFileSync(this.#file("certificates/apiserver.crt")),
          headers: { authorization: `Bearer ${this.#token}`, "content-type": type },
        },
        (answer) => {
          const pieces: Buffer[] = [];
          answer.on("data", (piece: Buffer) => pieces.push(piece));
          answer.on("error", reject);
          answer.on("end", () => {
            const text = Buffer.concat(pieces).toString();
            const isJson = answer.headers["content-type"]?.startsWith("application/json") === true;
            resolve({ status: answer.statusCode!, body: isJson ? JSON.parse(text) : text });
          });
        },
      );
      outgoing.on("error", reject);
      outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /** Ends the programs and removes what they wrote. */
  async stop(): Promise<void> {
    // The API server before etcd, or it waits for it.
    for (const child of this.#processes.toReversed()) {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) continue;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
