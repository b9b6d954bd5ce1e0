// How the server ends, what its health service says on the way, and that no bytes bring it down.

import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import net from "node:net";
import { credentials, loadPackageDefinition, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { silentLogger, systemClock } from "@winnow/core";
import fc from "fast-check";
import { protoPath } from "grpc-health-check";
import { afterEach, describe, expect, test } from "vitest";
import { ReplacedTls, tlsOf } from "../../../../../test/doubles/replaced-tls.ts";
import { testAuthority } from "../../../../../test/fixtures/certificates.ts";
import { FixturePredictor, SMALL_WEIGHTS } from "../../http/doubles/fixture-predictor.ts";
import { gate, until } from "../../http/server/fixtures/running-server.ts";
import { Burst } from "../fixtures/burst.ts";
import {
  RETRIEVAL,
  clientOf,
  closeAll,
  failureOf,
  messageType,
  start,
  type PredictMessage,
} from "../fixtures/grpc-client.ts";
import { createGrpcServer } from "./grpc-server.ts";

/** Connections to a port of this machine, as the kernel tells them. */
function establishedOf(port: number): number {
  const remote = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const established = new RegExp(`: \\S+ ${remote} 01 `, "g");
  return readFileSync("/proc/net/tcp", "latin1").match(established)?.length ?? 0;
}

/** Whether a port takes connections. */
function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.unref().once("connect", () => socket.destroy());
  });
}

interface HealthClient {
  close(): void;
  check(
    request: object,
    reply: (error: { code: number; details: string } | null, answer: { status: string }) => void,
  ): void;
  watch(request: object): AsyncIterable<{ status: string }> & {
    on(event: string, heard: (value: { status: string }) => void): unknown;
  };
}

const { grpc } = loadPackageDefinition(loadSync(protoPath, { enums: String })) as never as {
  grpc: {
    health: { v1: { Health: new (address: string, trust: unknown) => HealthClient } };
  };
};
const CUT = { code: status.UNAVAILABLE, details: "The server is closing" };
const healthClients: HealthClient[] = [];

function healthOf(port: number): HealthClient {
  const client = new grpc.health.v1.Health(`127.0.0.1:${port}`, credentials.createInsecure());
  healthClients.push(client);
  return client;
}

const check = (client: HealthClient, service: string): Promise<string> =>
  new Promise((resolve, reject) => {
    client.check({ service }, (error, answer) =>
      error === null ? resolve(answer.status) : reject(error),
    );
  });

afterEach(async () => {
  for (const client of healthClients.splice(0)) client.close();
  await closeAll();
});

describe("health", () => {
  test.each(["", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"])(
    'of "%s" follows readiness',
    async (service) => {
      const { port, predictor } = await start();
      const client = healthOf(port);

      expect(await check(client, service)).toBe("SERVING");

      predictor.ready = false;
      let last = "";
      while (last !== "NOT_SERVING") last = await check(client, service);
      expect(last).toBe("NOT_SERVING");
    },
  );

  test("a service with an endless name is not echoed at length", async () => {
    const { port } = await start();

    const failure = check(healthOf(port), "x".repeat(200_000));

    await expect(failure).rejects.toMatchObject({
      code: status.NOT_FOUND,
      details: expect.stringMatching(/^.{1000,1040}TRUNCATED$/),
    });
  });
});

describe("drain", () => {
  test("I5: calls in flight are answered, new ones refused, and then all is closed", async () => {
    const { server, prediction, predictor, port } = await start();
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;
    const held = prediction.call("Predict", RETRIEVAL);
    await until(() => predictor.requests.length === 1);

    const drained = server.drain();
    // Each connection is a newcomer, for which the server goes on listening: none follows at once.
    while (await isListening(port)) await new Promise((resolve) => setTimeout(resolve, 100));
    const late = clientOf("PredictionService", port).call("Predict", RETRIEVAL);
    await expect(late).rejects.toMatchObject({ code: status.UNAVAILABLE });
    open();
    const answer = (await held) as PredictMessage;
    await drained;

    expect(answer.model_spec.version.value).toBe("1");
    expect(predictor.pins).toBe(0);
  });

  // A connection that the kernel has set up and the server has not accepted ends with the listening socket, and a client
  // asks only when it has heard of the server.
  test.skipIf(process.platform !== "linux").each([
    ["without TLS", undefined],
    ["with TLS", testAuthority()],
  ])("answers those who had connected and were not accepted yet, %s", async (_title, authority) => {
    const tls = authority && {
      tls: new ReplacedTls(tlsOf(authority.issue({ names: ["127.0.0.1"] }))),
    };
    const { server, port } = await start({ drainIdleMs: 30_000 }, undefined, tls);
    const burst = await Burst.begin(port, 40, authority?.cert);
    // The kernel connects them, and this process stands still.
    while (establishedOf(port) < 40);

    await server.drain();

    expect(await burst.outcomes()).toEqual({ OK: 40 });
  });

  test("does not wait for clients that have connected and ask nothing", async () => {
    const { server, port } = await start({ drainIdleMs: 100 });
    const session = connect(`http://127.0.0.1:${port}`).on("error", () => undefined);
    await new Promise((resolve) => session.once("remoteSettings", resolve));
    const closed = new Promise((resolve) => session.once("close", resolve));

    const begunMs = performance.now();
    await server.drain();

    await closed;
    expect(performance.now() - begunMs).toBeLessThan(5000);
  });

  test("a health watch hears of it and does not hold it up", async () => {
    const { server, port } = await start();
    const heard: string[] = [];
    const watch = healthOf(port).watch({ service: "" });
    watch.on("data", (answer) => void heard.push(answer.status));
    watch.on("error", () => undefined);
    await until(() => heard.includes("SERVING"));

    await server.drain();

    await until(() => heard.includes("NOT_SERVING"));
    expect(heard.slice(-2)).toEqual(["SERVING", "NOT_SERVING"]);
  });

  test("ends by its timeout though a call never does", async () => {
    const { server, prediction, predictor } = await start({ drainTimeoutMs: 50 });
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;
    const held = prediction.call("Predict", RETRIEVAL);
    const failure = failureOf(held);
    await until(() => predictor.requests.length === 1);

    await server.drain();

    expect(await failure).toMatchObject(CUT);
    open();
    await until(() => predictor.pins === 0);
  });

  test("a client that never ends its request is cut in the end", async () => {
    const { server, port } = await start({ drainTimeoutMs: 20 });
    const session = connect(`http://127.0.0.1:${port}`);
    const closed = new Promise((resolve) => session.once("close", resolve));
    const stream = session.request({
      ":method": "POST",
      ":path": "/tensorflow.serving.PredictionService/Predict",
      "content-type": "application/grpc",
      te: "trailers",
    });
    for (const each of [session, stream]) each.on("error", () => undefined);
    stream.write(Buffer.from([0, 0, 0, 0, 9, 1]));
    await new Promise((resolve) => session.once("remoteSettings", resolve));

    await server.drain();

    await closed;
    expect(session.destroyed).toBe(true);
  });

  test("close cuts at once", async () => {
    const { server, prediction, predictor } = await start();
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;
    const held = prediction.call("Predict", RETRIEVAL);
    const failure = failureOf(held);
    await until(() => predictor.requests.length === 1);

    await server.close();

    expect(await failure).toMatchObject(CUT);
    open();
    await until(() => predictor.pins === 0);
  });

  test("a server that never listened ends as well", async () => {
    const environment = { clock: systemClock, random: () => 0.5, log: silentLogger };
    const idle = (): ReturnType<typeof createGrpcServer> =>
      createGrpcServer(new FixturePredictor(SMALL_WEIGHTS), { drainIdleMs: 1 }, environment);

    await expect(idle().drain()).resolves.toBeUndefined();
    await expect(idle().close()).resolves.toBeUndefined();
  });

  test("an address that is taken is said so", async () => {
    const { port } = await start();
    const { server } = await start();

    const failure = server.listen({ host: "127.0.0.1", port });

    await expect(failure).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});

test("hostile bytes are refused call by call, and the next sound one is answered", async () => {
  const { prediction, models } = await start();
  const sound = messageType("tensorflow.serving.PredictRequest").serialize(RETRIEVAL);
  const methods = ["Predict", "GetModelMetadata", "Classify"] as const;
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 80 }),
    fc
      .array(fc.tuple(fc.nat(sound.length - 1), fc.integer({ min: 0, max: 255 })), {
        minLength: 1,
        maxLength: 4,
      })
      .map((changes) => {
        const changed = Buffer.from(sound);
        for (const [at, value] of changes) changed[at] = value;
        return changed;
      }),
  );

  await fc.assert(
    fc.asyncProperty(bytes, fc.constantFrom(...methods), async (message, method) => {
      const answer = await prediction.send(method, Buffer.from(message)).catch((error) => error);
      const other = await models
        .send("GetModelStatus", Buffer.from(message))
        .catch((error) => error);

      for (const { code = 0 } of [answer, other] as { code?: number }[]) {
        expect([0, 3, 5, 9, 12, 13]).toContain(code);
      }
    }),
    { numRuns: 300 },
  );

  const answer = (await prediction.call("Predict", RETRIEVAL)) as PredictMessage;
  expect(answer.outputs["output_1"]?.float_val).toHaveLength(3);
});
