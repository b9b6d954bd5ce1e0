// The report of a whole router, over pretended workers that come, go and load versions.

import { WinnowError, workerId } from "@winnow/core";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { RouterBench } from "../fixtures/router-bench.ts";
import type { RouterBenchWords } from "../fixtures/router-bench.ts";
import { openApiDocument } from "../http/documents/openapi-document.ts";
import { bounded } from "./cluster-report.ts";
import { ClusterWatch } from "./cluster-watch.ts";
import type { ClusterReport } from "./report-document.ts";

const twice = [
  [0, 1, 2],
  [1, 2, 3],
  [0, 3],
];

interface Watched {
  readonly bench: RouterBench;
  readonly watch: ClusterWatch;
  /** The report after so long. */
  readonly after: (ms: number) => Promise<ClusterReport>;
}

async function watched(words: Partial<RouterBenchWords> = {}): Promise<Watched> {
  const bench = await RouterBench.started({ held: twice, ...words });
  const watch = new ClusterWatch({
    clock: bench.clock,
    version: "1.2.3",
    residentBytes: () => 4096,
    settings: { kMax: 10, labels: new Map([["movies", new Map([["stable", 7]])]]), off: undefined },
    defaults: { kMax: 4096, labels: new Map() },
  });
  watch.watch(bench.router);
  const after = async (ms: number): Promise<ClusterReport> => {
    await bench.clock.advanceSettled(ms);
    return watch.report();
  };
  return { bench, watch, after };
}

const textsOf = ({ events }: ClusterReport): string[] => events.map(({ text }) => text);

describe("the report", () => {
  test("tells a whole cluster as it is", async () => {
    const { after } = await watched();

    const { health, workers, models, router, events } = await after(1000);

    expect(health.sentence).toBe("All 3 workers answer, and the model is fully replicated");
    expect(workers.map(({ id, condition, replicas }) => [id, condition, replicas])).toEqual([
      ["w0", "ready", 6],
      ["w1", "ready", 6],
      ["w2", "ready", 4],
    ]);
    expect(models).toMatchObject([
      {
        name: "movies",
        answers: true,
        defaultVersion: 7,
        versions: [
          {
            version: 7,
            state: "AVAILABLE",
            isDefault: true,
            partitions: { covered: 8, underreplicated: 0, lost: 0 },
            rollout: { progress: 1, ready: 3, waitingFor: [], failedOn: [] },
            tables: [
              { name: "users", kind: "keyed", partitions: 4 },
              {
                name: "candidates",
                kind: "candidate",
                replicas: [
                  [0, 2],
                  [0, 1],
                  [0, 1],
                  [1, 2],
                ],
              },
            ],
          },
        ],
      },
    ]);
    expect(router).toMatchObject({
      version: "1.2.3",
      isReady: true,
      settings: { kMax: 10, labels: { movies: { stable: 7 } } },
      changedSettings: ["kMax", "labels"],
    });
    expect(events).toEqual([]);
  });

  test("tells a worker that dies within two seconds, why the cluster is degraded, and its return", async () => {
    const { bench, after } = await watched();

    bench.network.kill(bench.workers[1]!);
    const lost = await after(2000);
    bench.network.restart(bench.workers[1]!);
    const back = await after(5000);

    expect(lost.health).toMatchObject({ severity: "degraded" });
    expect(lost.health.sentence).toMatch(/^Worker w1 cannot be reached: last heard 2 s ago/);
    expect(lost.workers[1]).toMatchObject({ condition: "unreachable", replicas: 0 });
    expect(lost.models[0]!.versions[0]!.partitions).toEqual({
      covered: 2,
      underreplicated: 6,
      lost: 0,
    });
    expect(textsOf(lost)).toEqual(["Worker w1 cannot be reached"]);
    expect(back.health.severity).toBe("ok");
    expect(textsOf(back)[0]).toBe("Worker w1 was started again and is ready");
  });

  test("is down, and names the model, once partitions have no replica", async () => {
    const { bench, after } = await watched();

    bench.network.kill(bench.workers[0]!);
    bench.network.kill(bench.workers[2]!);
    const { health, models, events } = await after(2000);

    expect(health).toMatchObject({ severity: "down" });
    expect(health.sentence).toContain(
      "movies does not answer: 2 of 8 partitions of movies/7 have no replica",
    );
    expect(models[0]).toMatchObject({ answers: false, versions: [{ coverage: 0.75 }] });
    expect(events.map(({ text }) => text)).toContain("movies does not answer any more");
  });

  test("suspects a worker that falls silent", async () => {
    const { bench, after } = await watched();

    bench.workers[0]!.frozen = true;
    while (bench.router.workers()[0]!.trusted) await bench.clock.advanceSettled(100);
    const silent = await after(1000);

    expect(silent.workers[0]!.condition).toBe("suspect");
    expect(silent.health.findings.map(({ text }) => text)).toContain(
      "Worker w0 does not answer as it should and is asked last",
    );
    expect(textsOf(silent)).toContain("Worker w0 is suspected: it does not answer as it should");
  });

  test("marks the worker that takes far longer than the others", async () => {
    const { bench, after } = await watched();
    bench.workers[2]!.delayMs = 40;

    for (let user = 0; user < 12; user += 1) await bench.settle(bench.predict([user]));
    const { workers } = await after(1000);

    expect(workers.map(({ isStraggler }) => isStraggler)).toEqual([false, false, true]);
  });

  test("tells a new version from the first worker that has it until it is the default", async () => {
    const { bench, after } = await watched();

    bench.workers[0]!.versions.push(8);
    bench.network.announce(bench.workers[0]!);
    const begun = await after(2000);
    for (const worker of bench.workers.slice(1)) {
      worker.versions.push(8);
      bench.network.announce(worker);
    }
    const done = await after(3000);

    expect(begun.models[0]!.versions[0]).toMatchObject({
      version: 8,
      isDefault: false,
      rollout: { ready: 1, waitingFor: ["w1", "w2"], progress: 0.375 },
    });
    expect(begun.health.findings[0]?.text).toBe(
      "movies/8 is on its way: 37 % loaded, waiting for w1, w2",
    );
    expect(done.models[0]).toMatchObject({ defaultVersion: 8 });
    expect(textsOf(done)).toContain("movies/8 answers by default, after version 7");
  });

  test("tells why a version failed on a worker that cannot be reached any more", async () => {
    const { bench, after } = await watched();
    const [failing, loading] = bench.workers;
    loading!.versions.push(8);
    bench.network.announce(loading!);
    bench.network.kill(failing!);
    const said = bench.network.announcementOf(failing!);
    const error = new WinnowError("INVALID_ARGUMENT", "saved_model.pb is cut short");
    const failed = {
      ...said.versions[0]!,
      version: 8,
      state: "failed" as const,
      error,
      tables: [],
    };
    const others = bench.workers.slice(1).map((each) => bench.network.announcementOf(each));
    const broken = { ...said, versions: [...said.versions, failed] };
    const brokenAs = (id: string) => ({ ...broken, workerId: workerId(id) });
    bench.membership.publish([broken, ...others, brokenAs("w10"), brokenAs("w9")]);

    const { models } = await after(2000);

    expect(models[0]!.versions[0]).toMatchObject({
      version: 8,
      rollout: { failedOn: ["w0", "w9", "w10"] },
      error: { code: "INVALID_ARGUMENT", message: "w0: saved_model.pb is cut short" },
    });
  });

  test.each([
    ["that answers", 1, "AVAILABLE"],
    ["that lacks partitions", 2, "LOADING"],
  ])("tells why a worker cannot load a part of a version %s", async (_, killed, state) => {
    const { bench, after } = await watched();
    for (const worker of bench.workers.slice(0, killed)) bench.network.kill(worker);
    const said = bench.network.announcementOf(bench.workers[0]!);
    const error = new WinnowError("DATA_LOSS", "what was read here is not what others read");
    const versions = said.versions.map((each) => ({ ...each, state: "loading" as const, error }));
    const others = bench.workers.slice(1).map((each) => bench.network.announcementOf(each));
    bench.membership.publish([{ ...said, versions }, ...others]);

    const { models } = await after(2000);

    expect(models[0]!.versions[0]).toMatchObject({
      state,
      error: { code: "DATA_LOSS", message: "w0: what was read here is not what others read" },
    });
  });

  test("tells why a ready worker cannot load a replica more, and gives the version no error for it", async () => {
    const { bench, after } = await watched();
    bench.network.kill(bench.workers[0]!);
    const said = bench.network.announcementOf(bench.workers[0]!);
    const error = new WinnowError("DATA_LOSS", "what was read here is not what others read");
    const versions = said.versions.map((each) => ({ ...each, error }));
    const others = bench.workers.slice(1).map((each) => bench.network.announcementOf(each));
    bench.membership.publish([{ ...said, versions }, ...others]);

    const { models } = await after(2000);

    const [version] = models[0]!.versions;
    expect(said.versions[0]?.state).toBe("ready");
    expect(version).toMatchObject({
      state: "AVAILABLE",
      extraFailure: "w0: what was read here is not what others read",
    });
    expect(version).not.toHaveProperty("error");
  });

  test("tells labels, and those that wait for a version", async () => {
    const labels = new Map([
      [
        "movies",
        new Map([
          ["stable", 7],
          ["canary", 9],
        ]),
      ],
    ]);
    const { after } = await watched({ options: { labels } });

    const { models, health } = await after(1000);

    expect(models[0]).toMatchObject({ labels: { stable: 7 }, waitingLabels: { canary: 9 } });
    expect(health.sentence).toContain("canary (version 9)");
  });

  test("is made once a second, however often it is asked for", async () => {
    const { watch, after } = await watched();
    await after(1000);

    const first = watch.json();
    await after(900);
    const second = watch.json();
    await after(200);

    expect(second).toBe(first);
    expect(watch.json()).not.toBe(first);
  });

  test("holds what the description of the API says", async () => {
    const { bench, watch, after } = await watched();
    const stages = new Map([["topK", 3]]);
    const observer = watch.http({ answered: () => undefined });
    const seen = { requestId: "a-1", api: "predict", version: "7", status: 200, code: "OK" };
    const sizes = { instances: 1, coverage: 1, answerBytes: 9, elapsedMs: 4, stages };
    observer.answered({ ...seen, ...sizes, model: "movies" });
    observer.answered({ ...seen, ...sizes, model: "invented <b>name</b>", code: "NOT_FOUND" });
    observer.answered({ ...seen, ...sizes, model: "movies", api: "status" });
    bench.network.kill(bench.workers[2]!);
    const report = await after(2000);

    const description = JSON.parse(openApiDocument()) as {
      components: { schemas: { ClusterReport: object } };
    };
    const validate = new Ajv2020().compile(description.components.schemas.ClusterReport);
    validate(JSON.parse(watch.json().toString()));

    expect(validate.errors).toBeNull();
    expect(report.slowRequests.map(({ model }) => model)).toEqual(["movies", "(unknown)"]);
    expect(report.router.traffic).toMatchObject({ requests: 2, failures: { NOT_FOUND: 1 } });
  });

  test("stays within its bounds for a cluster of 600 workers and 300 models, and says what it leaves out", async () => {
    const { after } = await watched();
    const { models, workers, ...rest } = await after(1000);
    const [model] = models;
    const table = model!.versions[0]!.tables[0]!;
    const wide = { ...table, replicas: Array.from({ length: 100 }, () => [0, 550]) };
    const many = bounded({
      ...rest,
      workers: Array.from({ length: 600 }, () => workers[0]!),
      models: Array.from({ length: 300 }, () => ({
        ...model!,
        versions: Array.from({ length: 20 }, (_, at) => ({
          ...model!.versions[0]!,
          isDefault: at === 19,
          tables: [wide],
        })),
      })),
    });

    const lists = many.models.flatMap(({ versions }) =>
      versions.flatMap(({ tables }) => tables.flatMap(({ replicas }) => replicas ?? [])),
    );
    expect(many.leftOut).toEqual({ workers: 88, models: 44, versions: 256 * 4 });
    expect(many.models[0]!.versions).toHaveLength(16);
    expect(many.models[0]!.versions.at(-1)!.isDefault).toBe(true);
    expect(lists.length).toBeLessThanOrEqual(16_384);
    expect(lists.flat()).not.toContain(550);
    expect(Buffer.byteLength(JSON.stringify(many))).toBeLessThan(4 * 2 ** 20);
  });
});
