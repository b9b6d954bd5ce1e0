// Where `winnow up` asks the router that it started, whatever the router listens on, and for how long.

import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { routerUrl, waitUntilLoaded } from "./local-cluster.ts";

/** Routers whose status pages `ask` gives. */
function askedRouters(routers: number, ask: (url: string) => Promise<{ text: string }>) {
  const areReady = (): boolean => true;
  return { url: "http://router", routers, areReady, client: { ask } } as unknown as Parameters<
    typeof waitUntilLoaded
  >[0];
}

test.each([
  ["127.0.0.1", "http://127.0.0.1:8501"],
  ["recommender.example.org", "http://recommender.example.org:8501"],
  ["0.0.0.0", "http://127.0.0.1:8501"],
  ["::", "http://127.0.0.1:8501"],
  ["::1", "http://[::1]:8501"],
])("a router on --host %s is asked at %s", (host, url) => {
  expect(routerUrl({ host, port: 8501, isSecure: false })).toBe(url);
});

test("a pipeline that waits for a model which does not come is not waited for, a model that loads is", async () => {
  const clock = new ManualClock();
  const statuses = new Map([
    ["big", { state: "LOADING", error_message: "" }],
    ["feed", { state: "LOADING", error_message: "The pipeline waits: no model" }],
  ]);
  const ask = (url: string) => {
    const { error_message = "", state = "START" } = statuses.get(url.split("/").at(-1)!) ?? {};
    const entry = { version: "1", state, status: { error_message } };
    return Promise.resolve({ text: JSON.stringify({ model_version_status: [entry] }) });
  };
  const router = askedRouters(1, ask);
  const versions = ["big", "feed"].map((model) => ({ model, version: 1 }));
  const { signal } = new AbortController();
  let found: unknown;
  const waiting = (async () => {
    found = await waitUntilLoaded(router, versions, { signal, onWait: () => undefined, clock });
  })();

  await clock.advanceSettled(60_000);
  expect(found).toBeUndefined();
  statuses.set("big", { state: "AVAILABLE", error_message: "" });
  await clock.advanceSettled(9000);
  expect(found).toBeUndefined();
  await clock.advanceSettled(2000);
  await waiting;

  expect(found).toMatchObject([{ state: "AVAILABLE" }, { model: "feed", state: "LOADING" }]);
});

test("a version is waited for until every router has it", async () => {
  const clock = new ManualClock();
  let late = "LOADING";
  let asked = 0;
  const ask = () => {
    const state = asked++ % 2 === 0 ? "AVAILABLE" : late;
    const entry = { version: "1", state, status: { error_message: "" } };
    return Promise.resolve({ text: JSON.stringify({ model_version_status: [entry] }) });
  };
  const routers = askedRouters(2, ask);
  const { signal } = new AbortController();
  let isOver = false;
  const waiting = (async () => {
    const versions = [{ model: "movies", version: 1 }];
    const found = await waitUntilLoaded(routers, versions, {
      signal,
      onWait: () => undefined,
      clock,
    });
    isOver = true;
    return found;
  })();

  await clock.advanceSettled(1000);
  expect(isOver).toBe(false);
  late = "AVAILABLE";
  await clock.advanceSettled(1000);

  expect(await waiting).toMatchObject([{ model: "movies", state: "AVAILABLE" }]);
});

test("a router that no connection reached is waited for, but not for ever", async () => {
  const clock = new ManualClock();
  const entry = { version: "1", state: "AVAILABLE", status: { error_message: "" } };
  const text = JSON.stringify({ model_version_status: [entry] });
  let isReady = false;
  const routers = { ...askedRouters(2, () => Promise.resolve({ text })), areReady: () => isReady };
  const { signal } = new AbortController();
  const wait = async (ended: () => void): Promise<void> => {
    const versions = [{ model: "movies", version: 1 }];
    await waitUntilLoaded(routers, versions, { signal, onWait: () => undefined, clock });
    ended();
  };
  const ends: string[] = [];
  const waits = [wait(() => void ends.push("ready"))];
  await clock.advanceSettled(1000);
  expect(ends).toEqual([]);
  isReady = true;
  await clock.advanceSettled(1000);
  expect(ends).toEqual(["ready"]);
  isReady = false;
  waits.push(wait(() => void ends.push("never ready")));
  await clock.advanceSettled(5000);
  expect(ends).toEqual(["ready"]);
  await clock.advanceSettled(10_000);
  await Promise.all(waits);

  expect(ends).toEqual(["ready", "never ready"]);
});
