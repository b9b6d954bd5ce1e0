// Clients that do not read their answers: each is cut off in time, and nobody else waits for it.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { stringTensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { RawClient, postPredict, predictHead } from "../fixtures/http-client.ts";
import type { HttpOptions } from "../http-settings.ts";
import { BODY, closeAll, heldBytes, start, until } from "./fixtures/running-server.ts";
import type { Running } from "./fixtures/running-server.ts";

const MEBIBYTE = 1024 * 1024;
const clients: RawClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await closeAll();
});

describe("answers that are not read", () => {
  const options = { connectionCheckMs: 20, answerStallMs: 200 };
  /** More than the kernel buffers for a connection. */
  const ANSWER_BYTES = 24 * MEBIBYTE;

  /** A server whose every answer is long, and `BODY`'s alone short. */
  async function startTalkative(further: HttpOptions): Promise<Running> {
    const running = await start({ ...options, ...further });
    const { predictor } = running;
    const predict = predictor.predict.bind(predictor);
    const words = stringTensor([...Array(ANSWER_BYTES / MEBIBYTE).keys()].map(word));
    predictor.predict = async (pinned, request) => {
      const prediction = await predict(pinned, request);
      return request.k === undefined
        ? prediction
        : { ...prediction, outputs: new Map([["words", words]]) };
    };
    return running;
  }
  const word = (index: number): string => String.fromCharCode(97 + index).repeat(MEBIBYTE);
  const LONG = JSON.stringify({ instances: ["42"], k: 1 });

  async function deafClient({ port }: Running): Promise<RawClient> {
    const client = await RawClient.open(port, predictHead(LONG.length) + LONG);
    clients.push(client);
    client.socket.pause();
    return client;
  }

  test("R1: are held until their client is cut off, and hold up nobody", async () => {
    const running = await startTalkative({});
    await deafClient(running);
    await until(() => heldBytes(running, "answers") > ANSWER_BYTES);

    const other = await postPredict(running.port, BODY);
    await until(() => heldBytes(running, "answers") === 0);

    expect(other.status).toBe(200);
    expect(running.gaveUp).toEqual(["answer stalled"]);
  });

  test("make room at once for those that are", async () => {
    const running = await startTalkative({
      answerStallMs: 60_000,
      answerBytesInFlightMax: Math.floor(1.5 * ANSWER_BYTES),
    });
    await deafClient(running);
    await until(() => heldBytes(running, "answers") > ANSWER_BYTES);

    let other = await postPredict(running.port, LONG);
    while (other.status === 503) other = await postPredict(running.port, LONG);

    expect(other.bytes.length).toBeGreaterThan(ANSWER_BYTES);
    expect(new Set(running.gaveUp)).toEqual(new Set(["answer memory"]));
  });

  test("are refused where clients that do read hold all the memory", async () => {
    const running = await startTalkative({ answerBytesInFlightMax: ANSWER_BYTES });

    const refused = await postPredict(running.port, LONG);
    const other = await postPredict(running.port, BODY);

    expect([refused.status, refused.headers["retry-after"], other.status]).toEqual([503, "1", 200]);
    expect(running.gaveUp).toEqual(["answer memory"]);
  });

  test("that are read slowly arrive whole", async () => {
    const running = await startTalkative({ answerStallMs: 10_000 });
    const expected = (await postPredict(running.port, LONG)).bytes;
    const client = await deafClient(running);
    await until(() => heldBytes(running, "answers") > 0);

    while (heldBytes(running, "answers") > 0) {
      client.socket.resume();
      // After the last bytes none come, though the server may not know yet that they were read.
      await Promise.race([once(client.socket, "data"), sleep(20)]);
      client.socket.pause();
    }
    client.socket.resume();
    // Before the body come its headers.
    const bodyStart = (): number => client.bytes.indexOf("\r\n\r\n") + 4;
    await until(() => client.bytes.length - bodyStart() >= expected.length);

    expect(client.bytes.subarray(bodyStart()).equals(expected)).toBe(true);
    expect(running.gaveUp).toEqual([]);
  });

  test("that take too long in all are given up, though the last of them is on its way", async () => {
    const running = await startTalkative({ answerStallMs: 60_000, answerTimeoutMs: 300 });
    await deafClient(running);

    await until(() => running.gaveUp.length === 1);

    expect(running.gaveUp).toEqual(["answer overdue"]);
    expect(heldBytes(running, "answers")).toBe(0);
  });
});
