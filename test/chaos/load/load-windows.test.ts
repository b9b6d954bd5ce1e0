// Figures of a load: latencies from when a request was due, classes by window, and how long a fault
// disturbed it.

import { expect, test } from "vitest";
import type { AnswerClass } from "../answers/answer-check.ts";
import { LoadWindows } from "./load-windows.ts";

/** Ten requests a second from `fromMs` to `toMs`, each taking so long. */
function load(
  windows: LoadWindows,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  takes: (dueMs: number) => { readonly latencyMs: number; readonly class?: AnswerClass },
): void {
  for (let dueMs = fromMs; dueMs < toMs; dueMs += 20) {
    const { latencyMs, class: kind = "exact" } = takes(dueMs);
    const window = windows.current!;
    windows.sent(dueMs, dueMs + 1);
    const endMs = dueMs + latencyMs;
    const request = { kind: "retrieval", window, dueMs, endMs, isResent: false } as const;
    windows.finish({ ...request, class: kind, text: kind });
  }
}

test("a fault disturbs until its last bucket of slow or missing answers", () => {
  const windows = new LoadWindows();
  windows.open("before", 0);
  load(windows, { fromMs: 0, toMs: 2000 }, () => ({ latencyMs: 10 }));
  windows.open("during", 2000);
  windows.inject("first", 2000);
  load(windows, { fromMs: 2000, toMs: 4000 }, (dueMs) => ({ latencyMs: dueMs < 2500 ? 400 : 10 }));
  windows.inject("second", 4000);
  load(windows, { fromMs: 4000, toMs: 6000 }, (dueMs) => ({
    latencyMs: 10,
    class: dueMs === 4300 ? "failed" : "exact",
  }));
  windows.close(6000);

  const { windows: told, disturbances, seen, lateness } = windows.figures();

  expect(told.map(({ name, requests, p50Ms, p99Ms }) => [name, requests, p50Ms, p99Ms])).toEqual([
    ["before", 100, 10, 10],
    ["during", 200, 10, 400],
  ]);
  expect(told[1]!.counts).toMatchObject({ exact: 199, failed: 1 });
  expect(disturbances.map(({ recoveryMs }) => recoveryMs)).toEqual([600, 400]);
  expect(seen).toMatchObject([{ atMs: 4300, window: "during", class: "failed" }]);
  expect(lateness).toMatchObject({ maxMs: 1, late: 0 });
});

test("a window of nothing is one of zeros", () => {
  const windows = new LoadWindows();
  windows.open("before", 0);
  windows.close(10);

  expect(windows.figures().windows).toMatchObject([{ requests: 0, p50Ms: 0, p99Ms: 0 }]);
});
