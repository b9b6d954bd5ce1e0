// Requests that offer another protocol: the connection goes on after them, and where Node loses what was sent behind one,
// it ends with the answer instead of leaving a client to wait.

import { afterEach, describe, expect, test } from "vitest";
import { RawClient, predictHead } from "../fixtures/http-client.ts";
import { BODY, closeAll, gate, speakTls, start, until } from "./fixtures/running-server.ts";

afterEach(async () => {
  speakTls(false);
  await closeAll();
});

const OFFER = "Connection: Upgrade\r\nUpgrade: h2c\r\n";
const OFFERING = `GET /healthz HTTP/1.1\r\nHost: x\r\n${OFFER}\r\n`;
const PLAIN = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
const OFFERING_HEAD = predictHead(BODY.length, OFFER);

describe.each([
  ["without TLS", false],
  ["with TLS", true],
])("%s", (_title, isSecure) => {
  test.each([
    ["another one of its kind", OFFERING + OFFERING, [200]],
    ["a request", OFFERING + PLAIN, [200]],
    ["a part of a request", OFFERING + PLAIN.slice(0, 9), [200]],
    ["a request, itself behind others", PLAIN.repeat(3) + OFFERING + PLAIN, [200, 200, 200, 200]],
    ["a request, with a body of its own", OFFERING_HEAD + BODY + PLAIN, [200]],
  ])(
    "an offer before %s is answered, and the connection ends with the answer",
    async (_behind, bytes, statuses) => {
      speakTls(isSecure);
      const { port } = await start();

      const client = await RawClient.open(port, bytes);

      await until(() => client.isClosed);
      expect(client.statuses).toEqual(statuses);
      expect(client.bytes.toString("latin1").toLowerCase()).toContain("connection: close");
    },
  );

  test("an offer whose body comes later, before a request, ends the connection as well", async () => {
    speakTls(isSecure);
    const { port, predictor } = await start();
    const { opened, open } = gate();
    predictor.beforeAnswer = () => opened;
    const client = await RawClient.open(port, OFFERING_HEAD);
    await until(() => client.socket.bytesWritten > 0);
    await new Promise((resolve) => setTimeout(resolve, 20));

    client.socket.write(BODY + PLAIN);
    await until(() => predictor.requests.length === 1);
    open();

    await until(() => client.isClosed);
    expect(client.statuses).toEqual([200]);
  });

  test("a client that offers with every request, and waits for its answers, keeps its connection", async () => {
    speakTls(isSecure);
    const { port } = await start();
    const client = await RawClient.open(port, OFFERING);

    for (let answers = 1; answers < 6; answers += 1) {
      await until(() => client.statuses.length === answers);
      client.socket.write(answers % 2 === 0 ? OFFERING : OFFERING_HEAD);
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (answers % 2 === 1) client.socket.write(BODY);
    }

    await until(() => client.statuses.length === 6);
    expect(client.statuses).toEqual([200, 200, 200, 200, 200, 200]);
    expect(client.isClosed).toBe(false);
  });
});
