// A long answer to a client that reads as fast as it can: others have their turns while it is written.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { PIECE_BYTES, stringTensor } from "@winnow/core";
import { afterEach, expect, test } from "vitest";
import { postPredict } from "../fixtures/http-client.ts";
import { BODY, closeAll, start } from "./fixtures/running-server.ts";

afterEach(closeAll);

const ANSWER_BYTES = 2 * 1024 * 1024;

/** The most bytes that a server in this process gives the kernel in one turn of the event loop while `ask` runs. */
async function mostInOneTurn(ask: () => Promise<unknown>): Promise<number> {
  const sockets: Socket[] = [];
  const note = (message: unknown): void =>
    void sockets.push((message as { socket: Socket }).socket);
  subscribe("net.server.socket", note);
  let written = 0;
  let most = 0;
  const look = (): void => {
    const all = sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
    most = Math.max(most, all - written);
    written = all;
    turn = setImmediate(look);
  };
  let turn = setImmediate(look);
  await ask();
  clearImmediate(turn);
  unsubscribe("net.server.socket", note);
  return most;
}

test("no turn of the event loop writes more of a long answer than some pieces", async () => {
  const { port, predictor } = await start();
  const predict = predictor.predict.bind(predictor);
  // Less than the kernel takes at once for a connection.
  const words = stringTensor(["a".repeat(ANSWER_BYTES / 2), "b".repeat(ANSWER_BYTES / 2)]);
  predictor.predict = async (pinned, request) => ({
    ...(await predict(pinned, request)),
    outputs: new Map([["words", words]]),
  });

  let answer: { status: number; bytes: Uint8Array } | undefined;
  const most = await mostInOneTurn(async () => {
    answer = await postPredict(port, BODY);
  });

  expect(answer?.status).toBe(200);
  expect(answer?.bytes.length).toBeGreaterThan(ANSWER_BYTES);
  expect(most).toBeGreaterThan(PIECE_BYTES / 2);
  expect(most).toBeLessThanOrEqual(6 * PIECE_BYTES);
});
