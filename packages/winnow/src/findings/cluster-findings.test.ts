// What reports of a cluster mean together, for the states that an operator asks about.

import type { ClusterReport, ModelReport, WorkerReport } from "@winnow/router";
import { describe, expect, test } from "vitest";
import { type AskedRouter, clusterFindings } from "./cluster-findings.ts";

const NOW_MS = Date.UTC(2026, 0, 1);
const PLACEMENT = "replication 2, partitions of 67108864 bytes";

const worker = (id: string, changes: Partial<WorkerReport> = {}): WorkerReport => ({
  id,
  address: `${id}:7600`,
  condition: "ready",
  incarnation: NOW_MS - 1000,
  heardAgoMs: 200,
  release: "0.2.0",
  placement: PLACEMENT,
  accelerator: "cpu",
  device: "",
  memoryUsedBytes: 2 * 2 ** 30,
  memoryCapacityBytes: 8 * 2 ** 30,
  replicas: 12,
  questions: 0,
  queueRows: 0,
  isStraggler: false,
  ...changes,
});

interface RouterWords {
  readonly url?: string;
  readonly version?: string;
  readonly isReady?: boolean;
  readonly clockMs?: number;
  readonly settings?: Readonly<Record<string, number>>;
  readonly workers?: readonly WorkerReport[];
  readonly health?: ClusterReport["health"];
  readonly replicasIntended?: number;
  readonly underreplicated?: number;
}

const WELL: ClusterReport["health"] = {
  severity: "ok",
  sentence: "All is well",
  remedy: "",
  findings: [],
};

function router(words: RouterWords = {}): AskedRouter {
  const { url = "http://r0:8501", replicasIntended = 2, settings, workers, health } = words;
  const partitions = { covered: 8, underreplicated: words.underreplicated ?? 0, lost: 0 };
  const movies = {
    name: "movies",
    versions: [{ version: 1, isDefault: true, replicasIntended, partitions }],
  } as unknown as ModelReport;
  const report = {
    health: health ?? WELL,
    router: {
      version: words.version ?? "0.2.0",
      isReady: words.isReady ?? true,
      traffic: { requestsPerSecond: 3 },
      settings: { replication: 2, kMax: 4096, ...settings },
    },
    workers: workers ?? [worker("w0"), worker("w1"), worker("w2")],
    models: [movies],
  } as unknown as ClusterReport;
  return { url, report, clockMs: words.clockMs ?? NOW_MS };
}

const other = (words: RouterWords = {}): AskedRouter => router({ url: "http://r1:8501", ...words });

/** Findings as lines: state, subject, text, details. */
function lines(...asked: readonly AskedRouter[]): string[] {
  return clusterFindings(asked, NOW_MS).map(({ state, subject, text, details = [] }) =>
    [`${state} ${subject}: ${text}`, ...details].join(" | "),
  );
}

describe("findings of a cluster", () => {
  test("say of a sound one that all is good", () => {
    expect(lines(router(), other())).toEqual([
      "good router: http://r0:8501 answers: Winnow 0.2.0, 3 requests/s",
      "good router: http://r1:8501 answers: Winnow 0.2.0, 3 requests/s",
      "good health: All is well",
      "good releases: 0.2.0 everywhere",
      "good clocks: agree with this machine's to 3 s",
      "good memory: 8.00 GiB for rows per worker, none nearly full",
      "good spare: any 1 of 3 workers may end",
      "good settings: routers and workers agree",
    ]);
  });

  test("say of one of which no router answers only that", () => {
    const silent = { url: "http://r0:8501", error: "No router answers" };
    expect(lines(silent)).toEqual(["fault router: No router answers"]);
    expect(lines(silent, other())).toHaveLength(8);
  });

  const cases: Readonly<Record<string, readonly [asked: readonly AskedRouter[], line: string]>> = {
    "a router that is not ready": [
      [router({ isReady: false })],
      "fault router: http://r0:8501 answers: Winnow 0.2.0, 3 requests/s, not ready: no traffic should reach it",
    ],
    "what routers find themselves, with the remedy": [
      [
        router({
          health: {
            ...WELL,
            severity: "degraded",
            findings: [{ severity: "degraded", text: "w1 is lost", remedy: "Start it" }],
          },
        }),
      ],
      "fault health: w1 is lost | Start it",
    ],
    "an upgrade that is not finished": [
      [router({ version: "0.3.0", workers: [worker("w0"), worker("w1", { release: "0.3.0" })] })],
      "note releases: 2 releases of Winnow run together: finish the upgrade | 0.3.0: http://r0:8501, w1 | 0.2.0: w0",
    ],
    "a router's clock that is behind": [
      [router({ clockMs: NOW_MS - 90_000 })],
      "note clocks: differ from this machine's: logs and certificates need the time, answers do not | http://r0:8501 is 90 s behind",
    ],
    "a worker that began in the future": [
      [router({ workers: [worker("w0", { incarnation: NOW_MS + 3_600_000 }), worker("w1")] })],
      "note clocks: differ from this machine's: logs and certificates need the time, answers do not | worker w0 began 3600 s in the future, by its clock",
    ],
    "memory that is nearly full": [
      [router({ workers: [worker("w0", { memoryUsedBytes: 7.5 * 2 ** 30 }), worker("w1")] })],
      "note memory: nearly full: a new version beside the old one may not fit; add workers or memory | worker w0: 7.50 GiB of 8.00 GiB for rows",
    ],
    "workers of unequal memory": [
      [router({ workers: [worker("w0", { memoryCapacityBytes: 2 ** 34 }), worker("w1")] })],
      "note memory: 8.00 GiB to 16.0 GiB for rows per worker: partitions are spread evenly, so the smallest fills first",
    ],
    "a model without a second replica": [
      [router({ replicasIntended: 1 })],
      "note spare: only one replica of movies: when a worker ends, requests fail until it is back (--replication 2)",
    ],
    "fewer workers than replicas": [
      [router({ workers: [worker("w0")] })],
      "note spare: 1 of at least 2 workers that --replication 2 needs",
    ],
    "workers of which too few answer": [
      [router({ workers: [worker("w0"), worker("w1", { condition: "unreachable" })] })],
      "note spare: 1 of at least 2 workers that --replication 2 needs",
    ],
    "workers in drain, which answer nothing new": [
      [
        router({
          workers: [worker("w0"), worker("w1"), worker("w2", { condition: "draining" })],
        }),
      ],
      "good spare: any 1 of 2 workers may end",
    ],
    "replicas that are being loaded": [
      [router({ underreplicated: 3 })],
      "note spare: replicas of movies are missing: a worker that ends now may cost answers",
    ],
    "workers that place differently": [
      [
        router({
          workers: [
            worker("w0"),
            worker("w1", { placement: "replication 2, partitions of 1 byte" }),
          ],
        }),
      ],
      `fault settings: workers place partitions by different settings: give all of them the same | ${PLACEMENT}: w0 | replication 2, partitions of 1 byte: w1`,
    ],
    "a router that wants more replicas than workers hold": [
      [router({ settings: { replication: 3 } })],
      "fault settings: --replication differs: routers wait for replicas that workers do not hold | 3: http://r0:8501 | 2: w0, w1, w2",
    ],
    "accelerators that differ": [
      [router({ workers: [worker("w0"), worker("w1", { accelerator: "gpu" })] })],
      "note settings: accelerators differ: partitions are spread evenly, so the slowest decides | cpu: w0 | gpu: w1",
    ],
    "routers with different limits": [
      [router(), other({ settings: { kMax: 100 } })],
      "note settings: kMax differs between routers: one may refuse or wait for what another answers | 4096: http://r0:8501 | 100: http://r1:8501",
    ],
  };

  test.each(Object.entries(cases))("tell %s", (_what, [asked, line]) => {
    expect(lines(...asked)).toContain(line);
  });

  test("do not take a setting that a router of another release lacks for a conflict", () => {
    const newer = router({ version: "0.3.0", settings: { heldCandidatesMax: 5 } });

    expect(lines(newer, other()).filter((line) => line.includes("heldCandidatesMax"))).toEqual([]);
  });

  test("take a worker's words from the router that heard it last", () => {
    const late = router({
      workers: [worker("w0", { heardAgoMs: 9000, release: "0.1.0" }), worker("w1")],
    });
    expect(lines(late, other())).toContain("good releases: 0.2.0 everywhere");
  });
});
