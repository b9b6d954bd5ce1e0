// What a person reads of a report in a terminal.

import type { ClusterReport, ModelReport, WorkerReport } from "@winnow/router";
import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { versionReport } from "../../../../test/fixtures/version-report.ts";
import { topScreen } from "../commands/top.ts";
import { liveLines, statusLines } from "./report-lines.ts";

const worker = (id: string, changes: Partial<WorkerReport> = {}): WorkerReport => ({
  id,
  address: `${id}:7600`,
  condition: "ready",
  incarnation: 1,
  heardAgoMs: 200,
  accelerator: "cpu",
  device: "",
  memoryUsedBytes: 3 * 2 ** 30,
  memoryCapacityBytes: 8 * 2 ** 30,
  replicas: 12,
  questions: 0,
  queueRows: 0,
  latency: { p50Ms: 1, p95Ms: 3.04, p99Ms: 9 },
  isStraggler: false,
  ...changes,
});

const movies: ModelReport = {
  name: "movies",
  answers: true,
  defaultVersion: 1,
  labels: { stable: 1 },
  waitingLabels: { canary: 2 },
  versions: [
    versionReport({
      version: 2,
      state: "LOADING",
      isDefault: false,
      rollout: { progress: 0.4, ready: 1, waitingFor: ["w1"], failedOn: [] },
      partitions: { covered: 0, underreplicated: 6, lost: 2 },
    }),
    versionReport({ partitions: { covered: 3, underreplicated: 5, lost: 0 } }),
    versionReport({ version: 0, state: "END", isDefault: false, isOver: true }),
  ],
};

function report(changes: Partial<ClusterReport> = {}): ClusterReport {
  return {
    health: {
      severity: "degraded",
      sentence: "Worker w1 cannot be reached: last heard 12 s ago (and 1 more)",
      remedy: "Look at the log of w1",
      findings: [
        {
          severity: "degraded",
          text: "Worker w1 cannot be reached: last heard 12 s ago",
          remedy: "Look at the log of w1",
        },
        { severity: "degraded", text: "5 of 8 partitions lack replicas", remedy: "Wait" },
        { severity: "ok", text: "movies/2 is on its way", remedy: "" },
      ],
    },
    router: {
      version: "0.1.0",
      uptimeMs: 200_000,
      isReady: true,
      routingGeneration: 12,
      membershipAgeMs: 400,
      requests: 3,
      questions: 4,
      waitingSlices: 0,
      traffic: {
        requestsPerSecond: 120.04,
        latency: { p50Ms: 3, p99Ms: 120.4 },
        perSecond: [0, 1, 4, 8],
        requests: 7200,
        failures: { UNAVAILABLE: 3 },
        refusals: {},
      },
      memory: { residentBytes: 1 },
      settings: {},
      changedSettings: [],
    },
    workers: [
      worker("w0"),
      worker("w1", { condition: "unreachable", heardAgoMs: 12_000, replicas: 0 }),
    ],
    models: [movies],
    events: [{ severity: "degraded", text: "Worker w1 cannot be reached", agoMs: 12_000 }],
    slowRequests: [
      {
        agoMs: 3000,
        elapsedMs: 512.3,
        model: "movies",
        code: "OK",
        instances: 1,
        requestId: "trace-1",
        stages: { lookup: 1.2, topK: 500 },
      },
    ],
    leftOut: { workers: 0, models: 3, versions: 0 },
    ...changes,
  };
}

const textOf = (lines: readonly { readonly text: string }[]): string =>
  lines.map(({ text }) => text).join("\n");

describe("a status", () => {
  test.each([
    [["w0"], "failed on w0: saved_model.pb is cut"],
    [["w0", "w1"], "failed on w0, w1: w0: saved_model.pb is cut"],
  ])("names a worker that failed once, unless several did (%j)", (failedOn, told) => {
    const failed = versionReport({
      state: "END",
      rollout: { progress: 0, ready: 0, waitingFor: [], failedOn },
      error: { code: "DATA_LOSS", message: "w0: saved_model.pb is cut" },
    });

    const text = textOf(statusLines(report({ models: [{ ...movies, versions: [failed] }] })));

    expect(text).toContain(` ${told}\n`);
  });

  test("an older version that is kept, loaded as a whole, is not rolled out", () => {
    const kept = versionReport({ isDefault: false });

    const text = textOf(statusLines(report({ models: [{ ...movies, versions: [kept] }] })));

    expect(text).not.toContain("loaded");
  });

  test("says what is wrong and what to do, then workers, models and the router", () => {
    const text = textOf(statusLines(report()));

    expect(text).toBe(
      [
        "degraded  Worker w1 cannot be reached: last heard 12 s ago",
        "          → Look at the log of w1",
        "also      5 of 8 partitions lack replicas",
        "          → Wait",
        "news      movies/2 is on its way",
        "",
        "WORKER  STATE        HEARD  REPLICAS  MEMORY              ASKED  QUEUE  P50     P95     ACCELERATOR  ADDRESS",
        "w0      ready        0.2 s  12        3.0 GiB of 8.0 GiB  0      0      1.0 ms  3.0 ms  cpu          w0:7600",
        "w1      unreachable  12 s   0         3.0 GiB of 8.0 GiB  0      0      1.0 ms  3.0 ms  cpu          w1:7600",
        "",
        "MODEL   VERSION  STATE      DEFAULT  PARTITIONS                  REPLICAS  LABELS    ROLLOUT",
        "movies  2        LOADING             8: 6 lack replicas, 2 lost  2         (canary)  40 % loaded, waiting for w1",
        "movies  1        AVAILABLE  yes      8: 5 lack replicas          2         stable",
        "left out: 3 more models",
        "",
        "router    0.1.0, ready, up 3 min, generation 12, membership read 0.4 s ago",
        "traffic   120.0 requests/s, p50 3.0 ms, p99 120 ms, 3 under way; last minute: 7200 requests, 3 failed (UNAVAILABLE 3)",
      ].join("\n"),
    );
  });

  test("lists the arms of experiments, and their shadows", () => {
    const arms = [
      { name: "control", isShadow: false, model: "movies", version: 3, share: 2 / 3 },
      { name: "new-tower", isShadow: false, model: "movies", label: "canary", share: 1 / 3 },
      { name: "shadow", isShadow: true, model: "trending", share: 0.05 },
    ];
    const feed: ModelReport = { ...movies, name: "feed", versions: [versionReport({ arms })] };

    const lines = textOf(statusLines(report({ models: [feed] }))).split("\n");

    const from = lines.findIndex((line) => line.startsWith("EXPERIMENT"));
    expect(lines.slice(from - 1, from + 5).map((line) => line.trimEnd())).toEqual([
      "",
      "EXPERIMENT  VERSION  ARM        MODEL          SHARE",
      "feed        1        control    movies/3       66.7 %",
      "feed        1        new-tower  movies@canary  33.3 %",
      "feed        1        (shadow)   trending       5 %",
      "",
    ]);
  });

  test("marks what is wrong by its tone", () => {
    const tones = new Map(
      statusLines(report()).map(({ text, tone }) => [text.split(/\s+/)[0], tone]),
    );

    expect(tones.get("degraded")).toBe("warning");
    expect(tones.get("w0")).toBe("plain");
    expect(tones.get("w1")).toBe("bad");
    expect(tones.get("movies")).toBe("warning");
  });

  test("lets no name or message steer the terminal", () => {
    const evil = "\u001b[2J\u202emovies\n\u0007";
    const lines = liveLines(
      report({
        workers: [worker(evil, { address: evil, accelerator: evil, condition: evil as "suspect" })],
        models: [{ ...movies, name: evil, labels: { [evil]: 1 } }],
        slowRequests: [{ ...report().slowRequests[0]!, code: evil, stages: { [evil]: 1 } }],
        events: [{ severity: "ok", text: evil, agoMs: 0 }],
        health: { severity: "down", sentence: evil, remedy: evil, findings: [] },
      }),
    );

    expect(textOf(lines)).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
  });

  test("tells an empty cluster in words", () => {
    const text = textOf(statusLines(report({ workers: [], models: [] })));

    expect(text).toContain("no worker is known");
    expect(text).toContain("no model is known");
  });
});

describe("a live screen", () => {
  const size = { columns: 60, rows: 40 };
  const url = "http://127.0.0.1:8501";

  test("shows the last minute, events and the slowest requests, cut to the terminal", () => {
    const lines = topScreen({ url, report: report(), failure: undefined }, size);
    const text = textOf(lines);

    expect(text).toContain(" ▂▅█  requests/s, one minute");
    expect(text).toContain("12 s      Worker w1 cannot be reached");
    expect(text).toMatch(/512 ms {3}3\.0 s ago {2}movies {2}OK/);
    expect(Math.max(...lines.map(({ text: line }) => line.length))).toBeLessThanOrEqual(60);
  });

  test("says that a router has gone, above what it told last", () => {
    const error = new WinnowError("UNAVAILABLE", "No router answers");
    const lines = topScreen({ url, report: report(), failure: { error, sinceMs: 4200 } }, size);

    expect(lines[1]).toEqual({
      text: "The router has not answered for 4 s: No router answers",
      tone: "bad",
    });
    expect(textOf(lines)).toContain("w0");
  });

  test("leaves out what has no room, and says so", () => {
    const lines = topScreen(
      { url, report: report(), failure: undefined },
      { columns: 200, rows: 8 },
    );

    expect(lines).toHaveLength(7);
    expect(lines.at(-1)!.text).toMatch(/^… \d+ more lines/);
  });
});

test("one name of a million characters does not make every line as long", () => {
  const long = worker("w".repeat(1_000_000), { address: "w0:7600" });
  const workers = [long, worker("w1")];

  const lines = [...statusLines(report({ workers })), ...liveLines(report({ workers }))];

  expect(lines.every(({ text }) => text.length < 1000)).toBe(true);
  expect(lines.some(({ text }) => text.startsWith(`${"w".repeat(255)}…  ready`))).toBe(true);
});

test("a report of two hundred thousand workers is shown", () => {
  const workers = Array.from({ length: 200_000 }, (_, index) => worker(`w${index}`));

  expect(statusLines(report({ workers })).length).toBeGreaterThan(200_000);
});
