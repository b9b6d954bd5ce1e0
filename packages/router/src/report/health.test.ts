// The one sentence about a cluster, for the states that a person is called for.

import { describe, expect, test } from "vitest";
import { versionReport } from "../../../../test/fixtures/version-report.ts";
import { healthOf } from "./health.ts";
import type { HealthFacts } from "./health.ts";
import type { ModelReport } from "./report-document.ts";

type Worker = HealthFacts["workers"][number];

function worker(id: string, condition: Worker["condition"] = "ready", heardAgoMs = 100): Worker {
  return { id, condition, heardAgoMs, isStraggler: false };
}

function model(changes: Partial<ModelReport> = {}): ModelReport {
  return {
    name: "movies",
    answers: true,
    defaultVersion: 1,
    labels: {},
    waitingLabels: {},
    versions: [versionReport()],
    ...changes,
  };
}

const three = [worker("w0"), worker("w1"), worker("w2")];

function facts(changes: Partial<HealthFacts> = {}): HealthFacts {
  const traffic = { requests: 100, refusals: {} };
  const router = { membershipAgeMs: 1000, uptimeMs: 90_000, traffic };
  return { workers: three, models: [model()], router, ...changes };
}

describe("health", () => {
  test("is ok where all workers answer and all partitions have their replicas", () => {
    expect(healthOf(facts())).toEqual({
      severity: "ok",
      sentence: "All 3 workers answer, and the model is fully replicated",
      remedy: "",
      findings: [],
    });
  });

  test("says which workers have not started yet, and does not count those in drain", () => {
    const sentenceOf = (...workers: readonly Worker[]): string =>
      healthOf(facts({ workers })).sentence;
    const [w0, w1] = [worker("w0"), worker("w1")];
    const [w2, w3] = [worker("w2", "starting"), worker("w3", "starting")];

    expect(sentenceOf(w0, w1, w2)).toBe(
      "2 of 3 workers answer (starting: w2), and the model is fully replicated",
    );
    expect(sentenceOf(w0, w2, w3, worker("w4", "draining"))).toBe(
      "1 of 3 workers answer (starting: w2, w3), and the model is fully replicated",
    );
    expect(sentenceOf(worker("w0", "draining"))).toMatch(/^All workers are in drain, and /);
  });

  test("tells a worker in drain from one that has left, which a fixed list goes on naming", () => {
    const leaving = healthOf(facts({ workers: [...three, worker("w3", "draining", 900)] }));
    const left = healthOf(facts({ workers: [...three, worker("w3", "draining", 12_000)] }));

    expect(leaving.findings).toMatchObject([{ severity: "ok", text: "Worker w3 in drain" }]);
    expect(left.findings).toMatchObject([
      {
        severity: "ok",
        text: "Worker w3 has left after a drain",
        remedy: "Start w3 again, or take what is gone for good out of --members",
      },
    ]);
    expect(left.sentence).toBe("All 3 workers answer, and the model is fully replicated");
  });

  test("is degraded by a lost worker, told with the partitions that miss it", () => {
    const missing = versionReport({ partitions: { covered: 3, underreplicated: 5, lost: 0 } });
    const health = healthOf(
      facts({
        workers: [worker("w0"), worker("w1", "unreachable", 12_000), worker("w2")],
        models: [model({ versions: [missing] })],
      }),
    );

    expect(health).toMatchObject({
      severity: "degraded",
      sentence: "Worker w1 cannot be reached: last heard 12 s ago (and 1 more)",
      remedy: expect.stringContaining("log of w1") as string,
    });
    expect(health.findings.map(({ text }) => text)).toEqual([
      "Worker w1 cannot be reached: last heard 12 s ago",
      "5 of 8 partitions of movies/1 have fewer than 2 replicas",
    ]);
  });

  test("tells why a worker does not load the partitions that lack a replica, but no note beside the code OK", () => {
    const partitions = { covered: 3, underreplicated: 5, lost: 0 };
    const textOf = (code: string): string => {
      const error = { code, message: "w1: what was read here is not what others read" };
      return healthOf(
        facts({ models: [model({ versions: [versionReport({ partitions, error })] })] }),
      ).sentence;
    };

    expect(textOf("DATA_LOSS")).toBe(
      "5 of 8 partitions of movies/1 have fewer than 2 replicas: w1: what was read here is not what others read",
    );
    expect(textOf("OK")).toBe("5 of 8 partitions of movies/1 have fewer than 2 replicas");
  });

  test("tells of a damaged copy that nobody misses as news, and stays ok", () => {
    const extraFailure = "w2: Let go of partition 0: what was read here is not what others read";
    const models = [model({ versions: [versionReport({ extraFailure })] })];

    const { severity, sentence, findings } = healthOf(facts({ models }));

    expect([severity, sentence]).toEqual([
      "ok",
      "All 3 workers answer, and the model is fully replicated",
    ]);
    expect(findings).toEqual([
      {
        severity: "ok",
        text: `A replica of movies/1 beyond the intended ones is not loaded: ${extraFailure}`,
        remedy: "Mend what that worker names; it tries again by itself",
      },
    ]);
  });

  test("tells why a worker does not load the partitions that nobody has", () => {
    const partitions = { covered: 0, underreplicated: 6, lost: 2 };
    const error = { code: "DATA_LOSS", message: "w1: what was read here is not what others read" };
    const versions = [versionReport({ coverage: 0.75, partitions, error })];

    expect(healthOf(facts({ models: [model({ answers: false, versions })] }))).toMatchObject({
      sentence:
        "movies does not answer: 2 of 8 partitions of movies/1 have no replica: w1: what was read here is not what others read",
      remedy: expect.stringContaining("Mend what that worker names") as string,
    });
  });

  test("is down where no model answers, and names the partitions that nobody has", () => {
    const lost = versionReport({
      coverage: 0.75,
      partitions: { covered: 0, underreplicated: 6, lost: 2 },
    });
    const health = healthOf(
      facts({
        workers: [worker("w0"), worker("w1", "unreachable"), worker("w2", "unreachable")],
        models: [model({ answers: false, versions: [lost] })],
      }),
    );

    expect(health.severity).toBe("down");
    expect(health.sentence).toBe(
      "movies does not answer: 2 of 8 partitions of movies/1 have no replica (and 1 more)",
    );
  });

  test("is degraded, not down, where another model still answers", () => {
    const silent = model({ name: "films", answers: false, versions: [] });

    expect(healthOf(facts({ models: [silent, model()] })).severity).toBe("degraded");
    expect(healthOf(facts({ models: [silent] })).severity).toBe("down");
  });

  test.each([
    [[], "No worker is known"],
    [[worker("w0", "unreachable")], "The only worker cannot be reached: w0"],
  ])("is down without workers: %#", (workers, sentence) => {
    const health = healthOf(facts({ workers }));

    expect([health.severity, health.sentence]).toEqual(["down", sentence]);
    expect(health.remedy).not.toBe("");
  });

  test("is degraded by a new version that failed, while the old one answers", () => {
    const error = { code: "DATA_LOSS", message: "w0 (and 2 more): saved_model.pb is cut" };
    const failed = versionReport({
      version: 2,
      state: "END",
      isDefault: false,
      error,
      rollout: { progress: 0, ready: 0, waitingFor: [], failedOn: ["w0", "w1", "w2"] },
    });
    const health = healthOf(facts({ models: [model({ versions: [failed, versionReport()] })] }));

    expect(health).toMatchObject({
      severity: "degraded",
      sentence: "movies/2 failed on w0, w1, w2; version 1 goes on answering: saved_model.pb is cut",
      remedy: expect.stringContaining("winnow inspect") as string,
    });
  });

  test("does not send anybody to the files of a version for which memory or a disk is short", () => {
    const error = { code: "RESOURCE_EXHAUSTED", message: "w0: 90 bytes are needed, 50 are free" };
    const rollout = { progress: 0, ready: 0, waitingFor: [], failedOn: ["w0"] };
    const failed = versionReport({ version: 2, state: "END", isDefault: false, error, rollout });

    const { remedy } = healthOf(
      facts({ models: [model({ versions: [failed, versionReport()] })] }),
    );

    expect(remedy).toBe(
      "Give it the room that it lacks, or add workers; they try again by themselves",
    );
  });

  test("tells a version on its way, and a version that is over, without worry", () => {
    const loading = versionReport({
      version: 3,
      state: "LOADING",
      isDefault: false,
      rollout: { progress: 0.409, ready: 1, waitingFor: ["w1", "w2"], failedOn: [] },
    });
    const over = versionReport({ version: 0, state: "END", isDefault: false, isOver: true });
    const health = healthOf(
      facts({ models: [model({ versions: [loading, versionReport(), over] })] }),
    );

    expect(health.severity).toBe("ok");
    expect(health.findings).toEqual([
      {
        severity: "ok",
        text: "movies/3 is on its way: 40 % loaded, waiting for w1, w2",
        remedy: "",
      },
    ]);
  });

  test("stays ok with a model that was taken out, unless no model is left", () => {
    const over = [versionReport({ state: "END", isDefault: false, isOver: true })];
    const former = model({ name: "books", answers: false, versions: over });

    const beside = healthOf(facts({ models: [model(), former] }));
    const alone = healthOf(facts({ models: [former] }));

    expect([beside.severity, beside.sentence]).toEqual([
      "ok",
      "All 3 workers answer, and the model is fully replicated",
    ]);
    expect(beside.findings).toMatchObject([{ severity: "ok", text: "books was unloaded" }]);
    expect([alone.severity, alone.sentence]).toEqual([
      "down",
      "books does not answer: it has no version",
    ]);
  });

  test("tells what a version on its way waits for", () => {
    const message = "w0: The directory of version 3 has no model file yet";
    const empty = versionReport({
      version: 3,
      state: "START",
      isDefault: false,
      error: { code: "UNAVAILABLE", message },
      rollout: { progress: 0, ready: 0, waitingFor: ["w0"], failedOn: [] },
    });
    const health = healthOf(facts({ models: [model({ versions: [empty, versionReport()] })] }));

    expect(health.severity).toBe("ok");
    expect(health.findings[0]?.text).toBe(
      `movies/3 is on its way: 0 % loaded, waiting for w0: ${message}`,
    );
  });

  test("tells that a directory was changed into one that cannot be served", () => {
    const message =
      "w0 (and 2 more): Cannot read assets.extra/item-updates.jsonl, line 7: it has no id";
    const served = (error: { code: string; message: string }): ReturnType<typeof healthOf> =>
      healthOf(facts({ models: [model({ versions: [versionReport({ error })] })] }));
    const health = served({ code: "INVALID_ARGUMENT", message });

    expect(health.severity).toBe("degraded");
    expect(health.sentence).toBe(
      `movies/1 goes on with what it held before: its directory was changed, and cannot be served as it is now: ${message}`,
    );
    expect(health.remedy).toContain("winnow inspect DIR shows what is wrong");
    for (const code of ["OK", "UNAVAILABLE"]) {
      expect(served({ code, message }).severity).toBe("ok");
    }
  });

  test("tells that models are loaded before the first answers", () => {
    const loading = versionReport({
      state: "LOADING",
      isDefault: false,
      rollout: { progress: 0.5, ready: 0, waitingFor: ["w0"], failedOn: [] },
    });
    const starting = { ...model({ answers: false, versions: [loading] }) };
    const health = healthOf(facts({ models: [starting] }));

    expect(health.severity).toBe("down");
    expect(health.sentence).toBe("movies does not answer yet: movies/1 is loaded to 50 %");
  });

  test("a model that was taken out is no fault beside one that answers", () => {
    const leaving = versionReport({ state: "UNLOADING", isDefault: true });
    const taken = { ...model({ answers: false, versions: [leaving] }), name: "old" };
    const health = healthOf(facts({ models: [model(), taken] }));

    expect(health.severity).toBe("ok");
    expect(health.findings.map(({ text }) => text)).toEqual(["old is being unloaded"]);
    expect(healthOf(facts({ models: [taken] })).severity).toBe("down");
  });

  test("tells a router that waits for its workers from one that cannot read who they are", () => {
    const traffic = { requests: 0, refusals: {} };
    const of = (router: Partial<HealthFacts["router"]>): string =>
      healthOf(facts({ workers: [], models: [], router: { uptimeMs: 9, traffic, ...router } }))
        .sentence;

    expect([of({ membershipAgeMs: 5 }), of({})]).toEqual([
      "No worker is known",
      "No worker is known, because the membership has not been read yet",
    ]);
  });

  test("says of a version that is loaded that the router prepares it", () => {
    const loaded = versionReport({ state: "LOADING", isDefault: false });
    const health = healthOf(facts({ models: [model({ answers: false, versions: [loaded] })] }));

    expect(health.sentence).toBe(
      "movies does not answer yet: movies/1 is loaded, and this router prepares its program",
    );
  });

  test("says what a pipeline waits for, which is loaded and cannot answer", () => {
    const error = { code: "UNAVAILABLE", message: "The pipeline waits: no Redis is named" };
    const waiting = versionReport({ state: "LOADING", error });
    const models = [model(), model({ name: "feed", answers: false, versions: [waiting] })];

    const health = healthOf(facts({ models }));

    expect(health.sentence).toBe("feed does not answer yet: The pipeline waits: no Redis is named");
    expect(health.severity).toBe("degraded");
  });

  test("is degraded by a membership store that is silent for more than 30 s", () => {
    const traffic = { requests: 0, refusals: {} };
    const at = (membershipAgeMs: number): string =>
      healthOf(facts({ router: { membershipAgeMs, uptimeMs: 90_000, traffic } })).severity;
    const never = (uptimeMs: number): string =>
      healthOf(facts({ router: { uptimeMs, traffic } })).severity;

    expect([at(30_000), at(30_001)]).toEqual(["ok", "degraded"]);
    expect([never(30_000), never(30_001)]).toEqual(["ok", "degraded"]);
  });

  test("says that the membership is not read where no worker can be reached either", () => {
    const traffic = { requests: 0, refusals: {} };
    const router = { membershipAgeMs: 40_000, uptimeMs: 90_000, traffic };
    const workers = [worker("w0", "unreachable"), worker("w1", "unreachable")];

    const { severity, findings } = healthOf(facts({ router, workers }));

    // Workers that are started now would not be found.
    expect(severity).toBe("down");
    expect(findings.map(({ text }) => text)).toEqual([
      "None of 2 workers can be reached: w0, w1",
      "The membership has not been read for 40 s",
    ]);
  });

  test("is degraded by more than one refusal in a hundred requests", () => {
    const at = (refused: number): string =>
      healthOf(
        facts({
          router: {
            membershipAgeMs: 0,
            uptimeMs: 1,
            traffic: { requests: 100, refusals: { time: refused } },
          },
        }),
      ).severity;

    expect([at(1), at(2)]).toEqual(["ok", "degraded"]);
  });

  test("keeps a bounded number of findings, and of names in a sentence", () => {
    const workers = [
      worker("up"),
      ...Array.from({ length: 9 }, (_, at) => worker(`w${at}`, "unreachable")),
    ];
    const models = Array.from({ length: 100 }, (_, at) =>
      model({ name: `m${at}`, waitingLabels: { canary: 9 } }),
    );
    const health = healthOf(facts({ workers, models }));

    expect(health.findings).toHaveLength(32);
    expect(health.findings[0]?.text).toContain("9 workers: w0, w1, w2, w3 and 5 more");
    expect(health.sentence).toMatch(/\(and 100 more\)$/);
  });
});
