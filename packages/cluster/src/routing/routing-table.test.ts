// Routing follows the verified replicas that workers announce; never placement, and never a
// superseded incarnation.

import { WinnowError, fingerprint, workerId } from "@winnow/core";
import type { TableSpec, VersionKey } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced, printOf } from "../fixtures/announcement-words.ts";
import type { HoldingWords, WorkerWords } from "../fixtures/announcement-words.ts";
import { partitionRanges } from "./partition-ranges.ts";
import { buildRoutingTable, routedVersion } from "./routing-table.ts";
import type { RoutingContext, RoutingTable } from "./routing-table.ts";

const key = (version: number): VersionKey => ({
  model: "movies",
  version,
  fingerprint: fingerprint(printOf(version)),
});

/** Shares of partition p are [p + 1] in test announcements, so four give 1 ^ 2 ^ 3 ^ 4 = 4. */
const spec = (checksum: number | undefined = 4, partitions = 4): TableSpec => ({
  kind: "candidate",
  name: "candidates",
  rows: 400,
  dim: 8,
  partitions,
  idDtype: undefined,
  sources: [{ tensor: "candidates", file: "variables.data-00000-of-00001", checksum }],
});
const contextOf = (specs: Readonly<Record<number, TableSpec>>): RoutingContext => ({
  tables: new Map(
    Object.entries(specs).map(([version, each]) => [fingerprint(printOf(Number(version))), [each]]),
  ),
  replication: 2,
});
const v = (version: number, more: Partial<HoldingWords> = {}): HoldingWords => ({
  version,
  ...more,
});
const build = (
  workers: readonly WorkerWords[],
  context = contextOf({ 1: spec(), 2: spec() }),
  previous?: RoutingTable,
): RoutingTable => buildRoutingTable(workers.map(announced), context, previous);
const movies = (table: RoutingTable, version = 1) => routedVersion(table, "movies", version)!;

describe("buildRoutingTable()", () => {
  test("serves a model with fewer replicas than others have where it was told to", () => {
    const workers: WorkerWords[] = [
      { id: "a", versions: [v(1, { held: [0, 1] }), v(2, { held: [0, 1] })] },
      { id: "b", versions: [v(1, { held: [2, 3], serving: true }), v(2, { held: [2, 3] })] },
    ];
    const told = {
      ...contextOf({ 1: spec(), 2: spec() }),
      modelReplication: new Map([["movies", 1]]),
    };

    const servedBy = [build(workers), build(workers, told)].map(
      (table) => table.models.get("movies")?.serving?.version,
    );

    expect(servedBy).toEqual([1, 2]);
  });

  test("a version that waits for other models is LOADING; the one before it answers, also when nobody holds it", () => {
    const reason = new WinnowError("UNAVAILABLE", "model late is missing");
    const context: RoutingContext = {
      tables: new Map([1, 2].map((version) => [fingerprint(printOf(version)), []])),
      waiting: new Map([[fingerprint(printOf(2)), reason]]),
      replication: 2,
    };
    const bare = { held: [], partitions: 0 };
    const first = build([{ id: "a", versions: [v(1, bare)] }], context);
    const both = build([{ id: "a", versions: [v(1, bare), v(2, bare)] }], context, first);
    const left = build([{ id: "a", versions: [v(2, bare)] }], context, both);
    const still = build([{ id: "a", versions: [v(2, bare)] }], context, left);
    const there = build(
      [{ id: "a", versions: [v(2, bare)] }],
      { ...context, waiting: new Map() },
      still,
    );
    const gone = build([{ id: "a" }], context, still);

    for (const table of [both, left, still]) {
      expect(table.models.get("movies")?.serving?.version).toBe(1);
      expect(movies(table, 1).status).toEqual({ state: "AVAILABLE", error: undefined });
      expect(movies(table, 2).status).toEqual({ state: "LOADING", error: reason });
      expect(movies(table, 2).refusal).toBe(reason);
    }
    expect(there.models.get("movies")?.serving?.version).toBe(2);
    expect(there.models.get("movies")?.versions.map(({ key: { version } }) => version)).toEqual([
      2,
    ]);
    expect(gone.models.get("movies")?.versions ?? []).toEqual([]);
  });

  test("(R1) a model that was unloaded leaves the table; one whose workers are lost stays", () => {
    const course = (...states: readonly ("ready" | "unloading")[]): readonly string[] => {
      const context = contextOf({ 1: spec() });
      let table = build([], context);
      for (const state of states)
        table = build([{ id: "a", versions: [v(1, { state })] }], context, table);
      for (const lost of [[{ id: "a" }], []]) table = build(lost, context, table);
      return [...table.models.keys()];
    };

    expect(course("ready", "unloading")).toEqual([]);
    expect(course("ready")).toEqual(["movies"]);
  });

  test("a version that this router cannot run is END with the reason, and never the default", () => {
    const reason = new WinnowError("FAILED_PRECONDITION", "no operator Foo");
    const context: RoutingContext = {
      ...contextOf({ 1: spec() }),
      unrunnable: new Map([[fingerprint(printOf(2)), reason]]),
    };
    const first = build([{ id: "a", versions: [v(1)] }], context);
    const both = build([{ id: "a", versions: [v(1), v(2)] }], context, first);

    expect(both.models.get("movies")?.serving?.version).toBe(1);
    expect(movies(both, 2).status).toEqual({ state: "END", error: reason });
  });

  test("a version has the error of a worker that lacks a part of it, not that of one that is ready", () => {
    const trouble = "what was read here is not what others read";
    const statusWith = (state: "loading" | "ready"): unknown =>
      movies(
        build([
          { id: "a", versions: [v(1)] },
          { id: "b", versions: [{ ...v(1), state, trouble }] },
        ]),
      ).status;

    expect(statusWith("loading")).toMatchObject({
      state: "AVAILABLE",
      error: { code: "DATA_LOSS", message: `b: ${trouble}` },
    });
    expect(statusWith("ready")).toEqual({ state: "AVAILABLE", error: undefined });
  });

  test("lists the replicas of each partition and plans one of each", () => {
    const table = build([
      { id: "b", versions: [v(1, { held: [0, 1, 2] })] },
      { id: "a", versions: [v(1, { held: [2, 3] })] },
    ]);

    const version = movies(table);

    expect(version.tables[0]!.replicas).toEqual([["b"], ["b"], ["a", "b"], ["a"]]);
    expect(version.tables[0]!.plans[0]).toEqual(["b", "b", "a", "a"]);
    expect(version).toMatchObject({ coverage: 1, refusal: undefined, missing: undefined });
    expect(version.status.state).toBe("AVAILABLE");
    expect(table.workers.get(workerId("a"))!.address).toBe("a:7600");
    expect(table.generation).toBe(1);
  });

  test("I3: ignores a superseded incarnation", () => {
    const table = build([
      { id: "a", incarnation: 2, versions: [v(1, { held: [0] })] },
      { id: "a", incarnation: 1, versions: [v(1)] },
    ]);

    expect(movies(table).tables[0]!.replicas).toEqual([["a"], [], [], []]);
  });

  test("uses a draining worker only where nobody else holds the partition", () => {
    const table = build([
      { id: "a", state: "draining", versions: [v(1)] },
      { id: "b", versions: [v(1, { held: [1, 2] })] },
    ]);

    expect(movies(table).tables[0]!.replicas).toEqual([["a"], ["b"], ["b"], ["a"]]);
  });

  test("says which partitions have no replica, and keeps a verified version for partial answers", () => {
    const before = build([
      { id: "a", versions: [v(1, { held: [0, 1] })] },
      { id: "b", versions: [v(1, { held: [2, 3] })] },
    ]);

    const after = build([{ id: "a", versions: [v(1, { held: [0, 1] })] }], undefined, before);

    expect(movies(after)).toMatchObject({
      coverage: 0.5,
      missing: "partitions 2–3 of movies/1 candidates have no replica",
      refusal: undefined,
    });
    expect(movies(after).status).toMatchObject({
      state: "LOADING",
      error: { code: "UNAVAILABLE", message: movies(after).missing },
    });
    expect(after.models.get("movies")!.serving).toEqual(key(1));
  });

  test("I4: refuses a version until every partition has been seen", () => {
    const table = build([{ id: "a", versions: [v(1, { state: "loading", held: [0, 1, 2] })] }]);

    expect(movies(table).refusal).toMatchObject({
      code: "UNAVAILABLE",
      message: "movies/1 is not complete: partition 3 of movies/1 candidates has no replica",
    });
    expect(movies(table).status.state).toBe("LOADING");
  });

  test("does not route to a version whose program is not here", () => {
    const table = build([{ id: "a", versions: [v(1)] }], contextOf({}));

    expect(movies(table)).toMatchObject({ known: false, coverage: 0, holders: ["a"] });
    expect(movies(table).refusal?.code).toBe("UNAVAILABLE");
  });

  test("S7: refuses shares that do not add up, naming tensor and file", () => {
    const table = build([{ id: "a", versions: [v(1)] }], contextOf({ 1: spec(5) }));

    expect(movies(table).refusal).toMatchObject({
      code: "DATA_LOSS",
      message:
        'Refused movies/1: what workers read of "candidates" in variables.data-00000-of-00001 does not give the checksum that the version states for it',
    });
    expect(movies(table).status).toMatchObject({ state: "END", error: { code: "DATA_LOSS" } });
    expect(table.models.get("movies")!.serving).toBeUndefined();
  });

  test("S7: of two replicas that differ, the checksum tells which is right", () => {
    const wrong = v(1, { share: (partition) => [partition === 2 ? 99 : partition + 1] });

    for (const [first, second] of [
      [wrong, v(1)],
      [v(1), wrong],
    ] as const) {
      const table = build([
        { id: "a", versions: [first] },
        { id: "b", versions: [second] },
      ]);
      const honest = first === wrong ? "b" : "a";

      expect(movies(table).tables[0]!.replicas[2]).toEqual([honest]);
      expect(movies(table).refusal).toBeUndefined();
      expect(movies(table).conflicts).toEqual([
        `partition 2 of movies/1 candidates differs on ${honest === "a" ? "b" : "a"}`,
      ]);
    }
  });

  test("S7: once verified, a partition is never taken over by a replica that differs", () => {
    const unsummed = contextOf({ 1: spec(undefined) });
    const other = v(1, { held: [3], share: () => [77] });
    const before = build([{ id: "a", versions: [v(1)] }], unsummed);

    const outnumbered = build(
      [
        { id: "a", versions: [v(1)] },
        { id: "b", versions: [other] },
        { id: "c", versions: [other] },
      ],
      unsummed,
      before,
    );
    const alone = build(
      [
        { id: "a", versions: [v(1, { held: [0, 1, 2] })] },
        { id: "b", versions: [other] },
      ],
      unsummed,
      outnumbered,
    );

    expect(movies(outnumbered).tables[0]!.replicas[3]).toEqual(["a"]);
    expect(movies(alone).tables[0]!.replicas[3]).toEqual([]);
    expect(movies(alone).coverage).toBe(0.75);
  });

  test("keeps the default until the next version can be asked here", () => {
    const both = ["a", "b"].map((id) => ({ id, versions: [v(1), v(2)] }));
    const before = build(["a", "b"].map((id) => ({ id, versions: [v(1)] })));

    const unfetched = build(both, contextOf({ 1: spec() }), before);
    const corrupt = build(both, contextOf({ 1: spec(), 2: spec(5) }), before);
    const sound = build(both, undefined, unfetched);

    expect(unfetched.models.get("movies")!.serving).toEqual(key(1));
    expect(corrupt.models.get("movies")!.serving).toEqual(key(1));
    expect(sound.models.get("movies")!.serving).toEqual(key(2));
  });

  test("waits for members that are not connected before it changes the default", () => {
    const both = ["a", "b"].map((id) => ({ id, versions: [v(1), v(2)] }));
    const before = build(["a", "b"].map((id) => ({ id, versions: [v(1)] })));
    const members = [announced({ id: "c", versions: [v(1)] })];

    const table = buildRoutingTable(
      both.map(announced),
      { ...contextOf({ 1: spec(), 2: spec() }), members },
      before,
    );

    expect(table.models.get("movies")!.serving).toEqual(key(1));
  });

  test("starts from the saved default", () => {
    const both = ["a", "b"].map((id) => ({ id, versions: [v(1), v(2, { state: "loading" })] }));

    const table = build(both, {
      ...contextOf({ 1: spec(), 2: spec() }),
      saved: new Map([["movies", key(2)]]),
    });

    expect(table.models.get("movies")!.serving).toEqual(key(2));
  });

  test("tells the life of a version in TensorFlow Serving's words", () => {
    const table = build([
      {
        id: "a",
        versions: [
          v(1, { state: "unloading" }),
          v(2, { state: "loading", held: [0] }),
          v(3, { state: "loading", print: undefined }),
          v(4, { state: "failed", print: undefined }),
        ],
      },
    ]);

    const states = table.models.get("movies")!.versions.map(({ key, status }) => {
      return `${key.version} ${status.state} ${status.error?.message ?? ""}`.trim();
    });

    expect(states).toEqual(["4 END a: rows are cut short", "3 START", "2 LOADING", "1 UNLOADING"]);
  });

  test("of two contents under one number it keeps the one in use", () => {
    const other = v(1, { print: "f".repeat(64) });
    const before = build([{ id: "a", versions: [v(1)] }]);

    const table = build(
      [
        { id: "a", versions: [v(1)] },
        { id: "b", versions: [other] },
        { id: "c", versions: [other] },
      ],
      undefined,
      before,
    );

    expect(movies(table).key).toEqual(key(1));
    expect(movies(table).tables[0]!.replicas[0]).toEqual(["a"]);
  });

  test("keeps lists and plan where nothing changed, and always counts on", () => {
    const workers = [{ id: "a", versions: [v(1)] }];
    const before = build(workers);

    const after = build(workers, undefined, before);

    expect(after.generation).toBe(2);
    expect(movies(after).tables[0]!.plans).toBe(movies(before).tables[0]!.plans);
  });

  test("S10: asks nobody for what it does not announce, whatever is announced", () => {
    const anyWorkers = fc.array(fc.subarray([0, 1, 2, 3]), { minLength: 1, maxLength: 5 });

    fc.assert(
      fc.property(anyWorkers, (lists) => {
        const workers = lists.map((held, index) => ({
          id: `w${index}`,
          versions: [v(1, { held })],
        }));

        const [table] = movies(build(workers)).tables;

        for (let partition = 0; partition < 4; partition += 1) {
          const holders = workers.filter((_, index) => lists[index]!.includes(partition));
          expect(table!.replicas[partition]).toEqual(holders.map(({ id }) => id));
          for (const plan of table!.plans) {
            expect(table!.replicas[partition]!.includes(plan[partition]!)).toBe(holders.length > 0);
          }
        }
      }),
    );
  });
});

describe("partitionRanges()", () => {
  test("joins neighbours and cuts long lists", () => {
    expect(partitionRanges([3, 7, 8, 9])).toBe("partitions 3, 7–9");
    expect(partitionRanges([5])).toBe("partition 5");
    expect(partitionRanges(Array.from({ length: 20 }, (_, index) => index * 2))).toBe(
      "partitions 0, 2, 4, 6, 8, 10, 12, 14 and 12 more",
    );
  });
});
