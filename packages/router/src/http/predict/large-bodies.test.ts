// Large bodies beside small ones, over a socket.

import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import { postPredict, send } from "../fixtures/http-client.ts";
import {
  BODY,
  closeAll,
  errorOf,
  heldBytes,
  start,
  until,
} from "../server/fixtures/running-server.ts";

afterEach(closeAll);

/** A sound body for one user, with so many values that nobody asks for. */
const padded = (values: number): string =>
  `{"ignored": [${"1,".repeat(values)}1], "instances": ["42"]}`;

test("small requests are answered while a large body is read", async () => {
  const { port, server, predictor } = await start();
  await postPredict(port, padded(200_000));
  const order: string[] = [];

  const large = postPredict(port, padded(6_000_000)).finally(() => order.push("large"));
  await until(() => server.held().some(({ kind, bytes }) => kind === "parsing" && bytes > 0));
  const small = await postPredict(port, BODY).finally(() => order.push("small"));
  const answer = await large;

  expect(order).toEqual(["small", "large"]);
  expect([small.status, answer.status, answer.text]).toEqual([200, 200, small.text]);
  expect(predictor.pins).toBe(0);
});

test("a large body is held until it is answered, and its columns instead of its bytes", async () => {
  const running = await start();
  const { port, predictor } = running;
  const held: number[] = [];
  predictor.beforeAnswer = async () =>
    void held.push(heldBytes(running, "requests"), heldBytes(running, "parsing"));

  const sent = await postPredict(port, padded(300_000));
  await until(() => heldBytes(running, "requests") === 0);

  // One string of two bytes, and two offsets.
  expect([sent.status, held]).toEqual([200, [10, 0]]);
});

test("what is wrong with a large body is said as it is of a small one", async () => {
  const limits = { instancesMax: 10 };
  const { port } = await start({}, limits);
  const { port: byHand } = await start({ smallBodyBytes: 64 * 1024 * 1024 }, limits);
  const faulty = [
    padded(300_000).slice(0, -1),
    `{"instances": [${'"x",'.repeat(100_000)}"y"]}`,
    `{"exclude": 5, "instances": ["42"], "ignored": "${"x".repeat(400_000)}"}`,
  ];

  for (const body of faulty) {
    for (const method of ["predict", "classify"]) {
      const path = `/v1/models/retrieval:${method}`;
      const [large, small] = await Promise.all(
        [port, byHand].map((to) => send(to, { method: "POST", path, body })),
      );

      expect(large!.status).toBe(400);
      expect(large!.text).toBe(small!.text);
    }
  }
  const unknown = await postPredict(port, padded(300_000), { model: "nobody" });
  expect(errorOf(unknown.text)).toBe("Servable not found for request: Latest(nobody)");
});

test("a packed body is large by what it unpacks to", async () => {
  const { port } = await start();

  const packed = gzipSync(padded(300_000));
  const answer = await postPredict(port, packed, { headers: { "Content-Encoding": "gzip" } });

  expect(packed.length).toBeLessThan(10_000);
  expect(answer.status).toBe(200);
});

test("a body that breaks off while it unpacks counts as empty, however far it came", async () => {
  const { port } = await start();
  const headers = { "Content-Encoding": "gzip" };
  const long = gzipSync(randomBytes(600_000).toString("hex"));

  const answers = await Promise.all(
    [long.subarray(0, -20), Buffer.from("no gzip")].map((body) =>
      postPredict(port, body, { headers }),
    ),
  );

  expect(answers.map(({ status }) => status)).toEqual([400, 400]);
  expect(errorOf(answers[0]!.text)).toBe("JSON Parse error: The document is empty");
  expect(answers[1]!.text).toBe(answers[0]!.text);
});

test("large bodies beyond those that may wait are refused with a time to come back", async () => {
  const { port, gaveUp } = await start({ parserThreadsMax: 1, parserQueueMax: 0 });
  await postPredict(port, padded(200_000));

  const answers = await Promise.all([1, 2, 3].map(() => postPredict(port, padded(2_000_000))));

  const refused = answers.filter(({ status }) => status === 503);
  expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
  expect(refused.every(({ headers }) => headers["retry-after"] === "1")).toBe(true);
  expect(gaveUp).toEqual(refused.map(() => "body queue"));
});
