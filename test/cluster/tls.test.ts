// TLS with real processes: HTTPS and gRPC for clients, certificates of both sides between routers and
// workers, and all of them replaced under load without a request that fails.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import https from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import tls from "node:tls";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { testAuthority } from "../fixtures/certificates.ts";
import type { MadeCertificate } from "../fixtures/certificates.ts";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { WAIT_MS } from "./served-model.ts";

const NAMES = ["localhost", "127.0.0.1"];
const directory = mkdtempSync(path.join(tmpdir(), "winnow-tls-"));
const [clients, members] = [testAuthority("for clients"), testAuthority("for members")];
const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");

/** Files as Kubernetes mounts a secret: replaced all at once, by a symbolic link. */
class MountedSecret {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
  readonly #folder: string;
  #count = 0;

  constructor(name: string, made: MadeCertificate, ca: string) {
    this.#folder = path.join(directory, name);
    mkdirSync(this.#folder);
    this.replace(made, ca);
    const [cert, key, authority] = ["tls.crt", "tls.key", "ca.crt"].map((file) => {
      symlinkSync(path.join("..data", file), path.join(this.#folder, file));
      return path.join(this.#folder, file);
    }) as [string, string, string];
    this.cert = cert;
    this.key = key;
    this.ca = authority;
  }

  replace({ cert, key }: MadeCertificate, ca: string): void {
    const inside = path.join(this.#folder, `..${(this.#count += 1)}`);
    mkdirSync(inside);
    writeFileSync(path.join(inside, "tls.crt"), cert);
    writeFileSync(path.join(inside, "tls.key"), key);
    writeFileSync(path.join(inside, "ca.crt"), ca);
    symlinkSync(inside, path.join(this.#folder, "..next"));
    renameSync(path.join(this.#folder, "..next"), path.join(this.#folder, "..data"));
  }
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

function ask(url: string, body?: string, agent?: https.Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const sent = https.request(url, { method, ca: clients.cert, agent }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

describe("a cluster with TLS", () => {
  let cluster: RunningCluster;
  let url: string;
  let ofClients: MountedSecret;
  let ofMembers: MountedSecret;
  const issuePublic = () => clients.issue({ names: NAMES });
  const issueMember = () => members.issue({ names: [...NAMES, "member.winnow"] });
  const caFile = path.join(directory, "clients-ca.pem");
  const memberArgs = (secret: MountedSecret): string[] => [
    `--cluster-tls-cert=${secret.cert}`,
    `--cluster-tls-key=${secret.key}`,
    `--cluster-tls-ca=${secret.ca}`,
    "--cluster-tls-name=member.winnow",
  ];

  beforeAll(async () => {
    await writeDemo(path.join(directory, "models"), {
      items: 300,
      dim: 8,
      users: 50,
      k: 5,
      seed: 1,
    });
    writeFileSync(caFile, clients.cert);
    ofClients = new MountedSecret("public", issuePublic(), clients.cert);
    ofMembers = new MountedSecret("cluster", issueMember(), members.cert);
    cluster = await RunningCluster.start({
      models: path.join(directory, "models"),
      workers: 2,
      workerArgs: memberArgs(ofMembers),
      routerArgs: [
        ...memberArgs(ofMembers),
        `--tls-cert=${ofClients.cert}`,
        `--tls-key=${ofClients.key}`,
      ],
    });
    url = cluster.url.replace("http:", "https:");
    await vi.waitFor(
      async () => {
        const { text } = await ask(`${url}/v1/models/movies`);
        if (!text.includes('"AVAILABLE"')) throw new Error(text);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const predict = (agent?: https.Agent): Promise<Answer> =>
    ask(`${url}/v1/models/movies:predict`, '{"instances":["42"]}', agent);
  const metricOf = async (name: string, use: string): Promise<number> => {
    const { text } = await ask(`${url}/monitoring/prometheus/metrics`);
    return Number(new RegExp(`${name}\\{use="${use}"\\} (\\S+)`).exec(text)?.[1]);
  };
  /** The certificate that a new connection is shown. */
  const shown = (): Promise<string> =>
    new Promise((resolve, reject) => {
      const { hostname: host, port } = new URL(url);
      const socket = tls.connect({ host, port: Number(port), ca: clients.cert }, () => {
        resolve(socket.getPeerCertificate().serialNumber);
        socket.destroy();
      });
      socket.on("error", reject);
    });

  test("answers over HTTPS alone, and winnow predict asks it with --ca", async () => {
    const answer = await predict();
    const plain = await fetch(`${cluster.url}/healthz`).catch((error: unknown) => error);
    const asked = (...args: string[]): string =>
      execFileSync(
        process.execPath,
        [script, "predict", "movies", '["42"]', "--url", url, ...args],
        {
          encoding: "utf8",
          stdio: ["ignore", "pipe", "pipe"],
        },
      );

    expect(answer).toMatchObject({ status: 200 });
    expect(plain).toBeInstanceOf(Error);
    expect(JSON.parse(asked("--ca", caFile))).toEqual(JSON.parse(answer.text));
    expect(() => asked()).toThrow(/UNAUTHENTICATED: The certificate of .* is not believed/);
  });

  test("loses no request while every certificate is replaced", async () => {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
    const statuses = new Map<number | string, number>();
    const over = new AbortController();
    const clientsOf = [agent, agent, undefined].map(async (each) => {
      while (!over.signal.aborted) {
        const status = await predict(each).then(
          (answer) => answer.status,
          (error: unknown) => String(error),
        );
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    });
    const before = await shown();

    ofClients.replace(issuePublic(), clients.cert);
    ofMembers.replace(issueMember(), members.cert);
    await vi.waitFor(async () => expect(await shown()).not.toBe(before), {
      timeout: WAIT_MS,
      interval: 100,
    });
    await vi.waitFor(
      () => {
        for (const name of ["w0", "w1", "router0"]) {
          const uses = cluster.events(name, "certificates replaced").map(({ use }) => use);
          expect(uses).toContain("cluster");
        }
      },
      { timeout: WAIT_MS, interval: 100 },
    );
    // Streams are made anew with the new certificates.
    cluster.signal("w0", "SIGKILL");
    await cluster.ended("w0");
    cluster.restart("w0");
    await vi.waitFor(
      () => expect(cluster.events("w0", "worker listening").length).toBeGreaterThan(1),
      { timeout: WAIT_MS, interval: 100 },
    );
    over.abort();
    await Promise.all(clientsOf);
    agent.destroy();

    expect([...statuses.keys()]).toEqual([200]);
    expect(statuses.get(200)).toBeGreaterThan(20);
  });

  test("keeps the old certificate when the new one is bad, and says so until it is good", async () => {
    const before = await shown();
    const expiry = await metricOf("winnow_tls_certificate_expiry_timestamp_seconds", "public");
    ofClients.replace({ cert: issuePublic().cert, key: issuePublic().key }, clients.cert);

    await vi.waitFor(
      async () => expect(await metricOf("winnow_tls_files_refused", "public")).toBe(1),
      { timeout: WAIT_MS, interval: 200 },
    );
    const [refusal] = cluster.events("router0", "certificates refused, the old ones stay");
    const during = await shown();
    ofClients.replace(issuePublic(), clients.cert);
    await vi.waitFor(
      async () => expect(await metricOf("winnow_tls_files_refused", "public")).toBe(0),
      { timeout: WAIT_MS, interval: 200 },
    );

    expect(refusal?.["message"]).toMatch(/is not that of the certificate/);
    expect(during).toBe(before);
    expect(await shown()).not.toBe(before);
    expect(expiry * 1000).toBeGreaterThan(Date.now());
    expect(expiry * 1000).toBeLessThan(Date.now() + 2 * 86_400_000);
  });

  test("believes no router without a certificate of a member", async () => {
    const stranger = new MountedSecret("stranger", members.issue({ names: NAMES }), members.cert);
    const args = ["--members", cluster.members.join(","), "--port", "0"];
    const further = [[], memberArgs(stranger)];
    for (const tlsArgs of further) {
      const child = spawn(process.execPath, [script, "router", ...args, ...tlsArgs], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      let log = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (log += text));
      const port = await vi.waitFor(
        () => {
          const found = /"port":(\d+)[^\n]*"msg":"router listening"/.exec(log);
          expect(found).not.toBeNull();
          return found![1];
        },
        { timeout: WAIT_MS, interval: 50 },
      );
      await new Promise((resolve) => setTimeout(resolve, 2000));
      const answer = await fetch(`http://127.0.0.1:${port}/v1/models/movies`);
      child.kill("SIGKILL");

      expect(answer.status).toBe(404);
    }
    expect(cluster.events("w1", "a connection was refused in its TLS handshake")).not.toEqual([]);
    expect((await predict()).status).toBe(200);
  });
});
