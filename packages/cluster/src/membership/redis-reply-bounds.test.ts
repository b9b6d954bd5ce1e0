// Replies without end, and lists that announce more than there is: as bytes, and from a server that otherwise speaks as
// Redis does.

import { once } from "node:events";
import { type Socket, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import type { Logger } from "@winnow/core";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { RefusedRecords } from "../trust/refused-records.ts";
import { loadRedis } from "./redis-connection.ts";
import { RedisMembership } from "./redis-membership.ts";
import { RefusedReply, ReplyBounds } from "./redis-reply-bounds.ts";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";

const openRedis = await loadRedis();
const MIB = 2 ** 20;

/** What is said of these bytes; `undefined` where they are taken. */
function refusal(chunks: Iterable<string | Uint8Array>): string | undefined {
  const bounds = new ReplyBounds();
  try {
    for (const chunk of chunks) {
      bounds.take(typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk);
    }
  } catch (error) {
    if (error instanceof RefusedReply) return error.message;
    throw error;
  }
  return undefined;
}

function* repeated(
  first: string,
  chunk: string | Uint8Array,
  times: number,
): Generator<string | Uint8Array> {
  yield first;
  for (let time = 0; time < times; time += 1) yield chunk;
}

describe("the bounds of a reply", () => {
  const { reply } = fc.letrec<{ reply: string; value: string; list: string }>((tie) => ({
    reply: tie("value"),
    value: fc.oneof(
      { depthSize: "small", maxDepth: 5 },
      fc.constantFrom(
        "+OK\r\n",
        "-ERR no\r\n",
        ":17\r\n",
        ":-3\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "$0\r\n\r\n",
      ),
      fc.stringMatching(/^[\r\n$*+:a]{0,12}$/).map((text) => `$${text.length}\r\n${text}\r\n`),
      tie("list"),
    ),
    list: fc
      .array(tie("value"), { maxLength: 4 })
      .map((values) => `*${values.length}\r\n${values.join("")}`),
  }));

  test("are kept by whatever Redis sends, wherever it is cut", () => {
    fc.assert(
      fc.property(
        fc.array(reply, { minLength: 1 }),
        fc.infiniteStream(fc.nat(9)),
        (replies, cuts) => {
          const bytes = Buffer.from(replies.join(""), "latin1");
          const chunks: Uint8Array[] = [];
          for (let at = 0; at < bytes.length;) {
            const end = at + 1 + cuts.next().value;
            chunks.push(bytes.subarray(at, end));
            at = end;
          }

          const said = refusal(chunks);

          expect(said).toBeUndefined();
        },
      ),
    );
  });

  test("are those of one reply: thousands in a row are taken", () => {
    const reply = Buffer.concat([
      Buffer.from(`$${MIB}\r\n`),
      Buffer.alloc(MIB),
      Buffer.from("\r\n"),
    ]);
    const list = `*${MIB}\r\n${":1\r\n".repeat(MIB)}`;

    expect(refusal(repeated("+OK\r\n", reply, 200))).toBeUndefined();
    expect(refusal([list, list, list])).toBeUndefined();
  });

  const TOO_LONG = `sent an answer of more than ${72 * MIB} bytes`;
  const TOO_MANY = `sent an answer of more than ${MIB + 1} elements`;
  const NO_REDIS = "does not answer as Redis does";
  test.each<[string, Iterable<string | Uint8Array>, string]>([
    ["a text that announces its length", [`$${73 * MIB}\r\n`], TOO_LONG],
    ["a status without end", repeated("+", Buffer.alloc(MIB, "a"), 73), TOO_LONG],
    ["an error without end", repeated("-", Buffer.alloc(MIB, "a"), 73), TOO_LONG],
    [
      "texts that are together too long",
      repeated("*80\r\n", Buffer.from(`$${MIB}\r\n${"a".repeat(MIB)}\r\n`), 73),
      TOO_LONG,
    ],
    ["a list that announces its length", ["*30000000\r\n"], TOO_MANY],
    [
      "a list whose parts announce theirs",
      ["*2\r\n*600000\r\n", ":1\r\n".repeat(600_000), "*600000\r\n"],
      TOO_MANY,
    ],
    ["errors, each with a stack", [`*5000\r\n${"-E\r\n".repeat(5000)}`], TOO_MANY],
    ["lists in lists", ["*1\r\n".repeat(9)], NO_REDIS],
    ["a number without end", repeated(":", "1".repeat(10), 3), NO_REDIS],
    ["a length that is none", ["$1x\r\n"], NO_REDIS],
    ["a length below nothing", ["*-2\r\n"], NO_REDIS],
    ["a line that ends in half", ["+OK\rX"], NO_REDIS],
    ["another protocol", ["HTTP/1.1 400 Bad Request\r\n"], NO_REDIS],
    ["a type of RESP3", ["%1\r\n+a\r\n+b\r\n"], NO_REDIS],
  ])("are exceeded by %s", (_name, chunks, expected) => {
    const said = refusal(chunks);

    expect(said).toBe(expected);
  });
});

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/**
 * Answers the first commands of each connection as Redis does, and then a reading with `first` and `piece` after
 * `piece`; `sent`: bytes of the pieces of the connection that was sent most, as one that was left is made anew.
 */
async function liar(first: string, piece: string): Promise<{ url: string; sent: () => number }> {
  const sockets = new Set<Socket>();
  let most = 0;
  const server = createServer((socket) => {
    sockets.add(socket);
    let pieces = 0;
    const send = (): void => {
      while (pieces < 500 && !socket.destroyed) {
        pieces += 1;
        most = Math.max(most, pieces * piece.length);
        if (!socket.write(piece)) return;
      }
    };
    socket.on("error", () => undefined);
    socket.on("drain", send);
    socket.on("data", (data) => {
      const commands = data.toString("latin1");
      if (!/eval/i.test(commands)) {
        socket.write("+OK\r\n".repeat(commands.match(/^\*/gm)?.length ?? 0));
      } else if (pieces === 0) {
        socket.write(first);
        send();
      }
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `redis://127.0.0.1:${port}`, sent: () => most };
}

describe("a server that is none of Redis", () => {
  test.each([
    ["too many bytes", "*1000\r\n", `$${MIB}\r\n${"a".repeat(MIB)}\r\n`],
    ["too many elements", "*1\r\n", "*30000000\r\n"],
  ])("is left when it sends %s, which is counted and told", async (name, first, piece) => {
    const { url, sent } = await liar(first, piece);
    const what = name.split(" ").at(-1);
    const told: unknown[] = [];
    const log: Logger = {
      ...environment.log,
      warn: (_event, fields) => void told.push(fields?.["message"]),
    };
    const refused = new RefusedRecords(log);
    const store = new RedisMembership({ ...environment, log }, { url, refused }, openRedis);
    cleanups.push(() => store.close());
    store.watch(() => undefined);

    // Where a hundred MiB take longer than a command may, that is told before.
    const said = new RegExp(
      `^what listens there sent an answer of more than \\d+ ${what}; is the port right`,
    );
    await vi.waitFor(() => {
      expect(refused.counts.excess).toBeGreaterThan(0);
      expect(told).toContainEqual(expect.stringMatching(said));
    }, 20_000);

    expect(sent()).toBeLessThan(2 * 100 * MIB);
  });
});
