// What hostile and careless clients do to the ports of a cluster. Each attack begins when its function is
// called, and goes on until the function that it returns is called, which gives the attacker's counts.

import { gzipSync } from "node:zlib";
import { Attackers } from "./attackers.ts";
import type { HostileTargets } from "./hostile-clients.ts";

/** Begins an attack; the function given ends it. */
export type Attack = (targets: HostileTargets) => () => Promise<string>;

const MIB = 2 ** 20;

/** An attack from what it does at the start. */
const attack =
  (begin: (attackers: Attackers, targets: HostileTargets) => void): Attack =>
  (targets) => {
    const attackers = new Attackers();
    begin(attackers, targets);
    return () => attackers.end();
  };

const predictHead = (bodyBytes: number, headers: readonly string[] = []): string =>
  [
    "POST /v1/models/catalog:predict HTTP/1.1",
    "host: attacker",
    `content-length: ${bodyBytes}`,
    ...headers,
    "",
    "",
  ].join("\r\n");

/** A message of gRPC: one byte, its length, its bytes. */
function grpcMessage(bytes: Buffer, announcedBytes = bytes.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(announcedBytes, 1);
  return Buffer.concat([prefix, bytes]);
}

const PREDICT = "/tensorflow.serving.PredictionService/Predict";
const WATCH = "/grpc.health.v1.Health/Watch";
const EXCHANGE = "/winnow.shard.v1.Shard/Exchange";
const GET_PROGRAM = "/winnow.shard.v1.Shard/GetProgram";

/** Sends a body, again and again, on each of so many connections. */
function sendBodies(
  attackers: Attackers,
  ports: readonly number[],
  { body, headers = [], each, pauseMs }: BodyAttack,
): void {
  const head = predictHead(body.length, headers);
  for (const port of ports) {
    for (let count = 0; count < each; count += 1) {
      attackers.socket(
        port,
        (socket) => {
          const send = (): void => {
            if (socket.destroyed) return;
            attackers.note("bodies");
            socket.write(head);
            socket.write(body);
          };
          socket.on("data", () => attackers.later(pauseMs, send));
          send();
        },
        1000,
      );
    }
  }
}

interface BodyAttack {
  readonly body: Buffer;
  readonly headers?: readonly string[];
  /** Connections to each router. */
  readonly each: number;
  /** Between an answer and the next body. */
  readonly pauseMs: number;
}

const restPorts = ({ routers }: HostileTargets): number[] => routers.map(({ rest }) => rest);

/** A JSON text of at least so many bytes. */
function largeJson(bytes: number): Buffer {
  const user = `"user ${"x".repeat(50)}",`;
  return Buffer.from(`{"instances":[${user.repeat(Math.ceil(bytes / user.length))}"user 1"]}`);
}

function largeExclusions(bytes: number): Buffer {
  const item = `"item ${"y".repeat(24)} 000000",`;
  const list = item.repeat(Math.floor(bytes / item.length));
  return Buffer.from(`{"instances":["user 1"],"exclude":[${list}"z"]}`);
}

/** Every attack, by name. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  "stalled-bodies": attack((attackers, targets) => {
    // Bodies of 64 MiB, then smaller and smaller ones, until no byte of any budget for bodies is left.
    const sizes = Array.from({ length: 36 }, (_, at) => Math.floor(64 * MIB * 0.5 ** (at - 7)));
    for (const port of restPorts(targets)) {
      for (const size of sizes) {
        attackers.socket(
          port,
          (socket) => {
            socket.write(predictHead(Math.max(64, Math.min(64 * MIB, size))));
            socket.write(Buffer.alloc(50, " "));
          },
          200,
        );
      }
    }
  }),
  "large-json": attack((attackers, targets) => {
    sendBodies(attackers, restPorts(targets), { body: largeJson(62 * MIB), each: 2, pauseMs: 500 });
  }),
  "large-exclusions": attack((attackers, targets) => {
    const body = largeExclusions(29 * MIB);
    sendBodies(attackers, restPorts(targets), { body, each: 1, pauseMs: 500 });
  }),
  "many-instances": attack((attackers, targets) => {
    const instances = Array.from({ length: 4096 }, (_, user) => `"user ${user % 240}"`);
    const body = Buffer.from(`{"instances":[${instances.join(",")}]}`);
    sendBodies(attackers, restPorts(targets), { body, each: 2, pauseMs: 100 });
  }),
  "gzip-bombs": attack((attackers, targets) => {
    const body = gzipSync(Buffer.alloc(63 * MIB, " "), { level: 9 });
    sendBodies(attackers, restPorts(targets), {
      body,
      headers: ["content-encoding: gzip"],
      each: 15,
      pauseMs: 500,
    });
  }),
  "unread-answers": attack((attackers, targets) => {
    const instances = Array.from({ length: 1000 }, (_, user) => `"user ${user % 240}"`);
    const body = Buffer.from(`{"instances":[${instances.join(",")}],"k":1000}`);
    for (const port of restPorts(targets)) {
      for (let count = 0; count < 3; count += 1) {
        attackers.socket(
          port,
          (socket) => {
            socket.write(predictHead(body.length));
            socket.write(body);
            socket.pause();
          },
          1000,
        );
      }
    }
  }),
  "trickled-bodies": attack((attackers, targets) => {
    for (const port of restPorts(targets)) {
      for (let count = 0; count < 100; count += 1) {
        attackers.socket(
          port,
          (socket) => {
            socket.write(predictHead(1000));
            const timer = setInterval(() => socket.write(" "), 500);
            socket.once("close", () => clearInterval(timer));
          },
          500,
        );
      }
    }
  }),
  slowloris: attack((attackers, targets) => {
    for (const port of restPorts(targets)) {
      for (let count = 0; count < 1000; count += 1) {
        attackers.socket(
          port,
          (socket) => {
            socket.write("POST /v1/models/catalog:predict HTTP/1.1\r\nhost: attacker\r\n");
            const timer = setInterval(() => socket.write("x-more: 1\r\n"), 3000);
            socket.once("close", () => clearInterval(timer));
          },
          1000,
        );
      }
    }
  }),
  "half-open-calls": attack((attackers, { routers }) => {
    for (const { grpc } of routers) {
      attackers.session(grpc, (session) => {
        for (let count = 0; count < 512; count += 1) {
          attackers.call(session, count % 2 === 0 ? PREDICT : WATCH);
        }
      });
    }
  }),
  "unfinished-messages": attack((attackers, { routers }) => {
    const part = Buffer.alloc(8 * MIB, 1);
    for (const { grpc } of routers) {
      for (let count = 0; count < 20; count += 1) {
        attackers.session(grpc, (session) => {
          attackers.call(session, PREDICT)?.write(grpcMessage(part, 60 * MIB));
        });
      }
    }
  }),
  "program-flood": attack((attackers, { workers }) => {
    // model "catalog", version 1, a limit of 2^50 bytes: fields 1, 2 and 4 of ProgramRequest.
    const limit = [0x20, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
    const request = Buffer.concat([
      Buffer.from([0x0a, 7]),
      Buffer.from("catalog"),
      Buffer.from([0x10, 1, ...limit]),
    ]);
    for (const { grpc } of workers) {
      attackers.session(grpc, (session) => {
        const ask = (): void => {
          const stream = attackers.call(session, GET_PROGRAM);
          stream?.end(grpcMessage(request));
          stream?.on("data", () => undefined);
          stream?.on("close", () => attackers.later(5, ask));
        };
        for (let count = 0; count < 8; count += 1) ask();
      });
    }
  }),
  "mute-streams": attack((attackers, { workers }) => {
    for (const { grpc } of workers) {
      for (let connections = 0; connections < 10; connections += 1) {
        attackers.session(grpc, (session) => {
          for (let count = 0; count < 167; count += 1) attackers.call(session, EXCHANGE);
        });
      }
    }
  }),
  "garbage-bytes": attack((attackers, { routers, workers }) => {
    const ports = [...routers, ...workers].flatMap((each) => Object.values(each));
    const garbage = Buffer.from(Array.from({ length: 4096 }, (_, at) => (at * 167 + 13) & 255));
    const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    for (const port of ports) {
      for (const bytes of [
        garbage,
        Buffer.concat([preface, garbage]),
        Buffer.from("GET\r\n\r\n"),
      ]) {
        for (let count = 0; count < 5; count += 1) {
          attackers.socket(port, (socket) => socket.write(bytes), 200);
        }
      }
    }
  }),
};
