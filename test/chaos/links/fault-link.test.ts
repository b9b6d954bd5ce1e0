// Links do what their fault says: hold, delay, narrow, reset, refuse; and a healed one delivers all that
// waited, in order.

import { type Server, type Socket, connect, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FaultLink } from "./fault-link.ts";

let echo: Server;
let link: FaultLink;
const sockets: Socket[] = [];

beforeEach(async () => {
  echo = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => {
    echo.listen(0, "127.0.0.1", resolve);
  });
  const { port } = echo.address() as { port: number };
  link = await FaultLink.open({ host: "127.0.0.1", port });
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  link.close();
  echo.close();
});

class Client {
  readonly socket: Socket;
  text = "";
  error = "";
  #changed: () => void = () => undefined;

  constructor() {
    this.socket = connect(link.port, "127.0.0.1");
    sockets.push(this.socket);
    this.socket.on("data", (chunk) => {
      this.text += chunk.toString("latin1");
      this.#changed();
    });
    this.socket.on("error", (error) => {
      this.error = (error as NodeJS.ErrnoException).code ?? "";
    });
    this.socket.on("close", () => this.#changed());
  }

  /** Resolves once what was received, or the end, is as it should be. */
  async until(isTrue: () => boolean): Promise<void> {
    while (!isTrue()) {
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
  });

describe("a link", () => {
  test("passes bytes both ways, and the end of a stream", async () => {
    const client = new Client();

    client.socket.end("hello");
    await client.until(() => client.socket.closed);

    expect(client.text).toBe("hello");
    expect(client.error).toBe("");
  });

  test.each(["both", "to server", "to client"] as const)(
    "holds what is sent %s until it is healed",
    async (hold) => {
      const client = new Client();
      client.socket.write("1");
      await client.until(() => client.text === "1");

      await link.set({ hold });
      client.socket.write("23");
      await pause(100);
      const during = client.text;
      await link.set({});
      client.socket.write("4");
      await client.until(() => client.text.length === 4);

      expect(during).toBe("1");
      expect(client.text).toBe("1234");
    },
  );

  test("holds a connection that is made during a cut", async () => {
    await link.set({ hold: "both" });
    const client = new Client();
    client.socket.write("late");
    await pause(50);
    const during = client.text;

    await link.set({});
    await client.until(() => client.text === "late");

    expect(during).toBe("");
  });

  test("delays each way", async () => {
    const client = new Client();
    await link.set({ delayMs: 60 });
    const sentMs = performance.now();

    client.socket.write("x");
    await client.until(() => client.text === "x");

    expect(performance.now() - sentMs).toBeGreaterThan(110);
  });

  test("bounds what passes in a second", async () => {
    const client = new Client();
    await link.set({ bytesPerSecond: 1_000_000 });
    const sentMs = performance.now();

    client.socket.write(Buffer.alloc(300_000, "x"));
    await client.until(() => client.text.length === 300_000);

    expect(performance.now() - sentMs).toBeGreaterThan(250);
  });

  test("resets open connections, and new ones while it is told to", async () => {
    const open = new Client();
    open.socket.write("x");
    await open.until(() => open.text === "x");

    await link.set({ reset: true });
    await open.until(() => open.socket.closed);
    const fresh = new Client();
    await fresh.until(() => fresh.socket.closed);

    expect([open.error, fresh.error]).toEqual(["ECONNRESET", "ECONNRESET"]);
  });

  test("refuses connections, and takes them again on the same port", async () => {
    await link.set({ refuse: true });
    const refused = new Client();
    await refused.until(() => refused.socket.closed);
    await link.set({});
    const taken = new Client();
    taken.socket.write("x");
    await taken.until(() => taken.text === "x");

    expect(refused.error).toBe("ECONNREFUSED");
  });
});
