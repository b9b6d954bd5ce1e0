// The live screen against a router that answers, ends and is left: what reaches the terminal, and in which
// state it is left.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { EventEmitter } from "node:events";
import { afterEach, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RestClient } from "../access/rest-client.ts";
import { type TopInput, runTop } from "./top.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function serve(answer: () => string | undefined): Promise<string> {
  const server = createServer((_, response) => {
    const text = answer();
    if (text === undefined) response.destroy();
    else response.end(text);
  });
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

class Terminal {
  readonly isTTY = true;
  readonly columns = 100;
  readonly rows = 30;
  text = "";
  write(text: string): void {
    this.text += text;
  }
}

class Keys extends EventEmitter implements TopInput {
  readonly isTTY = true;
  isRaw = false;
  isPaused = true;
  setRawMode(isRaw: boolean): void {
    this.isRaw = isRaw;
  }
  resume(): void {
    this.isPaused = false;
  }
  pause(): this {
    this.isPaused = true;
    return this;
  }
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 2));
}

const report = (sentence: string): string =>
  JSON.stringify({
    health: { severity: "ok", sentence, remedy: "", findings: [] },
    router: {
      requests: 0,
      traffic: { requestsPerSecond: 0, perSecond: [], requests: 0, failures: {}, refusals: {} },
    },
    workers: [],
    models: [],
    events: [],
    slowRequests: [],
    leftOut: {},
  });

test("draws each second, keeps the last report of a router that is gone, and leaves the terminal as it was", async () => {
  let told: string | undefined = report("All is well");
  const url = await serve(() => told);
  const clock = new ManualClock();
  const [input, output] = [new Keys(), new Terminal()];

  const shown = runTop({ client: new RestClient(), url, clock, input, output });
  await until(() => output.text.includes("All is well"));
  const duringRaw = [input.isRaw, input.isPaused];
  told = report("Something else");
  await until(() => {
    clock.advance(1000);
    return output.text.includes("Something else");
  });
  told = undefined;
  await until(() => {
    clock.advance(1000);
    return output.text.includes("has not answered");
  });
  const last = output.text.slice(output.text.lastIndexOf("has not answered"));
  input.emit("data", Buffer.from("q"));
  await shown;

  expect(duringRaw).toEqual([true, false]);
  expect(last).toContain("Something else");
  expect(output.text.startsWith("\u001b[?1049h\u001b[?25l")).toBe(true);
  expect(output.text.endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
  expect([input.isRaw, input.isPaused, input.listenerCount("data")]).toEqual([false, true, 0]);
});

test.each([
  ["a key", "\u0003"],
  ["a signal", undefined],
])("ends by %s while a router does not answer", async (_, key) => {
  const url = await serve(() => report("All is well"));
  servers[0]!.removeAllListeners("request");
  const ending = new AbortController();
  const [input, output] = [new Keys(), new Terminal()];

  const shown = runTop({
    client: new RestClient(),
    url,
    clock: new ManualClock(),
    input,
    output,
    signal: ending.signal,
  });
  await until(() => !input.isPaused);
  if (key === undefined) ending.abort();
  else input.emit("data", key);

  await expect(shown).resolves.toBeUndefined();
});

test("needs a terminal, and says what does not", async () => {
  const output = { write: () => undefined };
  const shown = runTop({
    client: new RestClient(),
    url: "http://127.0.0.1:1",
    clock: new ManualClock(),
    input: new Keys(),
    output,
  });

  await expect(shown).rejects.toThrow("winnow status prints the same once");
});
