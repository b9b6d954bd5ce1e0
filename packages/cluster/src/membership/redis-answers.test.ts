// A server that speaks as Redis does, and then sends answers that nobody asked for.

import { once } from "node:events";
import { type Socket, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import type { Redis } from "ioredis";
import { afterEach, expect, test, vi } from "vitest";
import { loadRedis } from "./redis-connection.ts";

const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup();
});

/** Answers every command with `+PONG`, the first one on its first connection with `stray` behind it. */
async function straying(
  stray: string,
): Promise<{ redis: Redis; errors: string[]; sockets: Socket[] }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const isFirst = sockets.push(socket) === 1;
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      const commands = data.toString("latin1").match(/^\*/gm)?.length ?? 0;
      socket.write("+PONG\r\n".repeat(commands) + (isFirst ? stray : ""));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const open = await loadRedis();
  const redis = open(`redis://127.0.0.1:${port}`);
  const errors: string[] = [];
  redis.on("error", ({ message }) => errors.push(message));
  cleanups.push(() => {
    redis.disconnect();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { redis, errors, sockets };
}

test.each([
  ["nothing", "*-1\r\n"],
  ["a text", "+OK\r\n"],
  ["an error", "-ERR no\r\n"],
  ["thousands", "*-1\r\n:5\r\n+OK\r\n".repeat(5000)],
  ["a list in a list without end", "*1\r\n".repeat(100_000)],
])(
  "an answer that nobody asked for, %s, ends the connection and not the process",
  async (_name, stray) => {
    const { redis, errors, sockets } = await straying(stray);

    await vi.waitFor(async () => expect(await redis.ping()).toBe("PONG"), 5000);

    expect(sockets).toHaveLength(2);
    expect(errors).not.toEqual([]);
  },
);
