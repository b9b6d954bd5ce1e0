// Routers that share their ports: a scrape that reaches one of them shows them all, each sample with its router, however
// many scrapes come at once and whichever router is silent.

import { silentLogger } from "@winnow/core";
import { expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { labelledPages } from "./labelled-pages.ts";
import { PageRounds } from "./page-rounds.ts";
import { SharedMetrics } from "./shared-metrics.ts";

const NAMES = ["router r0", "router r1", "router r2"];

/** Three routers and their supervisor; the named ones give no page. */
function cluster({ silent = [] as readonly string[] } = {}) {
  const clock = new ManualClock();
  const listeners = new Map<string, (message: unknown) => void>();
  const made: string[] = [];
  const rounds = new PageRounds(NAMES, {
    clock,
    send: (name, message) => queueMicrotask(() => listeners.get(name)?.(message)),
  });
  const routers = NAMES.map((name, index) => {
    const text = (): Promise<string> => {
      made.push(name);
      if (silent.includes(name)) return new Promise(() => undefined);
      return Promise.resolve(`# HELP hits Hits\n# TYPE hits counter\nhits{k="v"} ${index}\n`);
    };
    const parent = {
      send: (message: unknown) => queueMicrotask(() => rounds.received(name, message)),
      onMessage: (listener: (message: unknown) => void) => void listeners.set(name, listener),
    };
    return new SharedMetrics({ clock, log: silentLogger, own: { text }, index, parent });
  });
  return { clock, routers, made };
}

test("samples of all routers stand together, each with its router", async () => {
  const { routers } = cluster();

  expect(await routers[1]!.text()).toBe(
    [
      "# HELP hits Hits",
      "# TYPE hits counter",
      'hits{router="r0",k="v"} 0',
      'hits{router="r1",k="v"} 1',
      'hits{router="r2",k="v"} 2',
      "",
      "# HELP winnow_router_up Whether the router, one of those that share these ports, gave its metrics",
      "# TYPE winnow_router_up gauge",
      'winnow_router_up{router="r0"} 1',
      'winnow_router_up{router="r1"} 1',
      'winnow_router_up{router="r2"} 1',
      "",
    ].join("\n"),
  );
});

test("a router that is silent is missing, and is said to be", async () => {
  const { clock, routers } = cluster({ silent: ["router r2"] });
  const asked = routers[0]!.text();
  await clock.advanceSettled(2500);
  const text = await asked;

  expect(text).toContain('hits{router="r1",k="v"} 1');
  expect(text).not.toContain('hits{router="r2"');
  expect(text).toContain('winnow_router_up{router="r2"} 0');
});

test("scrapes at the same time share what each router makes", async () => {
  const { routers, made } = cluster();
  const texts = await Promise.all([...routers, ...routers, ...routers].map((one) => one.text()));

  expect(new Set(texts).size).toBe(1);
  expect(made).toEqual(NAMES);
});

test("a router whose supervisor does not answer shows itself", async () => {
  const clock = new ManualClock();
  const own = { text: () => Promise.resolve("# HELP hits Hits\n# TYPE hits counter\nhits 7\n") };
  const parent = { send: () => undefined, onMessage: () => undefined };
  const router = new SharedMetrics({ clock, log: silentLogger, own, index: 3, parent });
  const asked = router.text();
  await clock.advanceSettled(5000);

  expect(await asked).toContain('hits{router="r3"} 7');
});

test.each([
  ["hits 1", 'hits{router="r0"} 1'],
  ["hits{} 1", 'hits{router="r0"} 1'],
  ['hits{a="} {"} 1', 'hits{router="r0",a="} {"} 1'],
  ['hits_bucket{le="+Inf"} NaN', 'hits_bucket{router="r0",le="+Inf"} NaN'],
])("%s becomes %s", (sample, labelled) => {
  const text = `# HELP hits Hits\n# TYPE hits counter\n${sample}\n`;

  expect(labelledPages([{ name: "r0", text }])).toContain(`\n${labelled}\n`);
});
