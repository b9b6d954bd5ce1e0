// TLS between routers and workers at real ports: who gets in, whom a router believes, and certificates that
// are replaced while streams are open.

import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import { silentLogger, systemClock } from "@winnow/core";
import type { WinnowError } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import type { TestAuthority } from "../../../../test/fixtures/certificates.ts";
import { eventually } from "../fixtures/eventually.ts";
import { connectorCases } from "../rpc/connector.cases.ts";
import { EchoWorker } from "../rpc/doubles/echo-worker.ts";
import { GrpcConnector } from "../rpc/grpc-connector.ts";
import { WorkerServer } from "../rpc/shard-server.ts";
import { anyAddress } from "../trust/worker-address.ts";
import { ReplacedTls, tlsOf } from "../../../../test/doubles/replaced-tls.ts";
import { seededEnvironment } from "../../../../test/doubles/seeded-environment.ts";
import type { ClusterTls } from "./grpc-credentials.ts";
import { memberFault } from "./member-fault.ts";

const authority = testAuthority();
const LOCAL = ["127.0.0.1", "localhost"];
const logged: string[] = [];
const log = { ...silentLogger, warn: (event: string) => void logged.push(event) };
const environment = { ...seededEnvironment, log };

const opened: { close(): unknown }[] = [];
afterEach(() => {
  logged.length = 0;
  for (const each of opened.splice(0)) each.close();
});

/** Members' TLS with a certificate for these names. */
function memberTls(names: readonly string[], memberName?: string, by = authority): ClusterTls {
  return { source: new ReplacedTls(tlsOf(by.issue({ names }), authority.cert)), memberName };
}

async function workerWith(tls?: ClusterTls, host = "127.0.0.1"): Promise<WorkerServer> {
  const service = new EchoWorker("w1");
  const worker = await WorkerServer.listen({ service, environment, ...(tls && { tls }) }, { host });
  opened.push(worker);
  return worker;
}

function routerWith(clusterTls?: ClusterTls): GrpcConnector {
  const connector = new GrpcConnector(systemClock, anyAddress, clusterTls);
  opened.push(connector);
  return connector;
}

/** The id of the worker that answers, or what its failure is. */
async function describes(router: GrpcConnector, { port }: WorkerServer): Promise<string> {
  try {
    return (await router.describe(`127.0.0.1:${port}`, 5000)).workerId;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

connectorCases("gRPC with TLS", async (service) => {
  const shared = memberTls(LOCAL);
  const server = await WorkerServer.listen({ service, environment, tls: shared });
  const connector = new GrpcConnector(systemClock, anyAddress, shared);
  return {
    connector,
    address: `127.0.0.1:${server.port}`,
    vacantAddress: "127.0.0.1:1",
    close: () => {
      connector.close();
      server.close();
    },
  };
});

describe("a worker with TLS", () => {
  const other = testAuthority("other");
  const refused: readonly [string, ClusterTls | undefined][] = [
    ["no TLS", undefined],
    ["a certificate of another authority", memberTls(LOCAL, undefined, other)],
    ["no certificate", { source: new ReplacedTls(tlsOf(undefined, authority.cert)) }],
  ];

  test.each(refused)("refuses routers with %s, and says so in its log", async (_, clusterTls) => {
    const worker = await workerWith(memberTls(LOCAL));

    expect(await describes(routerWith(clusterTls), worker)).toMatch(/UNAVAILABLE|DEADLINE/);
    expect(await describes(routerWith(memberTls(LOCAL)), worker)).toBe("w1");
    expect(logged).toEqual(["a connection was refused in its TLS handshake"]);
  });

  test("that asks for a name refuses those whose certificates lack it", async () => {
    const worker = await workerWith(memberTls(["member.winnow"], "member.winnow"));
    const lacking = memberTls(["other.winnow"], "member.winnow");

    expect(await describes(routerWith(lacking), worker)).toMatch(/UNAVAILABLE|DEADLINE/);
    const same = memberTls(["member.winnow"], "member.winnow");
    expect(await describes(routerWith(same), worker)).toBe("w1");
  });
});

describe("a router with TLS", () => {
  const lasts = "if this lasts, have both sides certificates of the same authority";
  test.each([
    [
      "is of another authority",
      memberTls(LOCAL, undefined, testAuthority("other")),
      memberTls(LOCAL),
      "; its certificate is of no authority in --cluster-tls-ca",
    ],
    [
      "is for another host",
      memberTls(["elsewhere"]),
      memberTls(LOCAL),
      "; a member's certificate must have the DNS name of --cluster-tls-name, or, where no member is given one, the host of its address",
    ],
    [
      "has another name than all are to have",
      memberTls(["other.winnow"], "member.winnow"),
      memberTls(["member.winnow"], "member.winnow"),
      "; a member's certificate must have the DNS name of --cluster-tls-name",
    ],
    ["is missing", undefined, memberTls(LOCAL), `wrong version number; ${lasts}`],
    ["is wanted", memberTls(LOCAL), undefined, lasts],
  ])("tells why it does not reach a worker whose certificate %s", async (...[, its, own, told]) => {
    const { port } = await workerWith(its);
    const connector = routerWith(own);
    const error = await new Promise<WinnowError | undefined>((onClose) => {
      const handlers = { onFrame: () => undefined, onWritable: () => undefined, onClose };
      connector.open(`127.0.0.1:${port}`, handlers);
    });

    const fault = memberFault(error!);

    expect(fault).toContain(told);
    expect(fault).not.toMatch(/Resolution|openssl|\d{4}-\d\d-/);
  });

  test.each([
    ["is for another host", memberTls(["elsewhere"]), memberTls(LOCAL)],
    ["is for another address", memberTls(["127.0.0.2", "localhost"]), memberTls(LOCAL)],
    [
      "is for the name that addresses are asked by",
      memberTls(["address.invalid"]),
      memberTls(LOCAL),
    ],
    ["is for another name", memberTls(LOCAL), memberTls(["member.winnow"], "member.winnow")],
    [
      "is of another authority",
      memberTls(LOCAL, undefined, testAuthority("other")),
      memberTls(LOCAL),
    ],
  ])("does not believe a worker whose certificate %s", async (_, worker, router) => {
    expect(await describes(routerWith(router), await workerWith(worker))).toMatch(
      /UNAVAILABLE|DEADLINE/,
    );
  });

  test("believes a worker at an address whose certificate is for this address alone", async () => {
    const worker = await workerWith(memberTls(["127.0.0.1"]));

    expect(await describes(routerWith(memberTls(LOCAL)), worker)).toBe("w1");
  });

  test("believes a worker at a host's name whose certificate is for that name alone", async () => {
    const { port } = await workerWith(memberTls(["localhost"]), "localhost");
    const router = routerWith(memberTls(LOCAL));

    expect((await router.describe(`localhost:${port}`, 5000)).workerId).toBe("w1");
  });

  test("does not talk to a worker without TLS", async () => {
    const service = new EchoWorker("w1");
    const worker = await WorkerServer.listen({ service, environment });
    opened.push(worker);

    expect(await describes(routerWith(memberTls(LOCAL)), worker)).toMatch(/UNAVAILABLE|DEADLINE/);
  });
});

describe("certificates of members that are replaced", () => {
  const replaced = (by: TestAuthority, ca: string) => tlsOf(by.issue({ names: LOCAL }), ca);

  test("leave open streams alone, and new connections use the new ones", async () => {
    const [old, next] = [testAuthority("old"), testAuthority("next")];
    const both = old.cert + next.cert;
    const [ofWorker, ofRouter] = [old, old].map(
      (by) => new ReplacedTls(replaced(by, old.cert)),
    ) as [ReplacedTls, ReplacedTls];
    const worker = await workerWith({ source: ofWorker });
    const router = routerWith({ source: ofRouter });
    const frames: string[] = [];
    let closed = 0;
    const stream = router.open(`127.0.0.1:${worker.port}`, {
      onFrame: ({ kind }) => void frames.push(kind),
      onWritable: () => undefined,
      onClose: () => void (closed += 1),
    });
    stream.send({ kind: "hello", routerId: "r1", wantsMembers: false });
    await eventually(() => expect(frames).toContain("state"));

    // As an operator replaces an authority: both are believed, then certificates change, then one is.
    const answers = [await describes(router, worker)];
    for (const step of [
      () => ofWorker.replace(replaced(old, both)),
      () => ofRouter.replace(replaced(old, both)),
      () => ofWorker.replace(replaced(next, both)),
      () => ofRouter.replace(replaced(next, both)),
      () => ofWorker.replace(replaced(next, next.cert)),
      () => ofRouter.replace(replaced(next, next.cert)),
    ]) {
      step();
      answers.push(await describes(router, worker));
    }
    stream.send({ kind: "ping", sequence: 1 });
    await eventually(() => expect(frames).toContain("pong"));
    const late = routerWith({ source: new ReplacedTls(replaced(old, both)) });

    expect(new Set(answers)).toEqual(new Set(["w1"]));
    expect(closed).toBe(0);
    expect(await describes(late, worker)).toMatch(/UNAVAILABLE|DEADLINE/);
  });
});

describe("connections that do not get through a handshake", () => {
  test("take places of the door, and give them to others, the oldest first", async () => {
    const clusterTls = memberTls(LOCAL);
    const service = new EchoWorker("w1");
    const settings = { connectionsMax: 3 };
    const worker = await WorkerServer.listen({ service, environment, tls: clusterTls }, settings);
    opened.push(worker);
    const silent = [1, 2, 3].map(() => net.connect(worker.port, "127.0.0.1"));
    for (const socket of silent) socket.on("error", () => undefined).resume();
    await Promise.all(silent.map((socket) => once(socket, "connect")));

    expect(await describes(routerWith(clusterTls), worker)).toBe("w1");

    await eventually(() => expect(silent[0]!.closed).toBe(true));
    expect(silent[2]!.closed).toBe(false);
    for (const socket of silent) socket.destroy();
  });

  test("with TLS 1.1 are refused", async () => {
    const worker = await workerWith(memberTls(LOCAL));
    const socket = tls.connect({
      host: "127.0.0.1",
      port: worker.port,
      ca: authority.cert,
      ...authority.issue(),
      minVersion: "TLSv1",
      maxVersion: "TLSv1.1",
      ciphers: "ALL:@SECLEVEL=0",
    });

    await expect(once(socket, "secureConnect")).rejects.toThrow(/alert|protocol|version/i);
  });
});
