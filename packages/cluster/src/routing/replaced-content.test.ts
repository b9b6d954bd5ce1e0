// Two contents under one version number: the one in use is asked, the other one is made ready.

import { fingerprint } from "@winnow/core";
import type { TableSpec, VersionKey } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced, printOf } from "../fixtures/announcement-words.ts";
import type { HoldingWords, WorkerWords } from "../fixtures/announcement-words.ts";
import { buildRoutingTable, routedVersion } from "./routing-table.ts";
import type { RoutingContext, RoutingTable } from "./routing-table.ts";

const key = (version: number): VersionKey => ({
  model: "movies",
  version,
  fingerprint: fingerprint(printOf(version)),
});
/** Shares of partition p are [p + 1] in test announcements, so four give 1 ^ 2 ^ 3 ^ 4 = 4. */
const spec = (): TableSpec => ({
  kind: "candidate",
  name: "candidates",
  rows: 400,
  dim: 8,
  partitions: 4,
  idDtype: undefined,
  sources: [{ tensor: "candidates", file: "variables.data-00000-of-00001", checksum: 4 }],
});
const v = (version: number, more: Partial<HoldingWords> = {}): HoldingWords => ({
  version,
  ...more,
});
const build = (
  workers: readonly WorkerWords[],
  context: RoutingContext,
  previous?: RoutingTable,
): RoutingTable => buildRoutingTable(workers.map(announced), context, previous);
const movies = (table: RoutingTable, version = 1) => routedVersion(table, "movies", version)!;

describe("the routing of a directory that is replaced in place", () => {
  const NEW = fingerprint("f".repeat(64));
  const anew = (more: Partial<HoldingWords> = {}) => v(1, { print: NEW, ...more });
  const leaving = v(1, { state: "unloading", serving: true });
  const context: RoutingContext = {
    tables: new Map([
      [fingerprint(printOf(1)), [spec()]],
      [NEW, [spec()]],
    ]),
    replication: 2,
  };
  const both = (old: HoldingWords, next: HoldingWords): WorkerWords[] =>
    ["a", "b"].map((id) => ({ id, versions: [old, next] }));
  const before = () => build(both(v(1), anew({ state: "loading", held: [0] })), context);

  test("(S4) the old content answers, and is available, until the new one is complete", () => {
    const during = build(both(leaving, anew({ state: "loading", held: [0] })), context, before());
    const after = build(both(leaving, anew()), context, during);

    expect(movies(during).key).toEqual(key(1));
    expect(movies(during).status.state).toBe("AVAILABLE");
    expect(after.models.get("movies")!.serving?.fingerprint).toBe(NEW);
    expect(movies(after).key.fingerprint).toBe(NEW);
    expect(movies(after).status.state).toBe("AVAILABLE");
  });

  test("(I1) both are there to be asked: requests under way finish on the one they began with", () => {
    const table = build(both(leaving, anew()), context, before());

    const contents = table.models
      .get("movies")!
      .contents.map((each) => [each.key.fingerprint, each.refusal, each.coverage]);
    expect(contents.toSorted(([a], [b]) => (a! < b! ? -1 : 1))).toEqual([
      [fingerprint(printOf(1)), undefined, 1],
      [NEW, undefined, 1],
    ]);
  });

  test("(L1) the new one does not serve before its program is here", () => {
    const unknown = { ...context, tables: new Map([[fingerprint(printOf(1)), [spec()]]]) };

    const table = build(both(leaving, anew()), unknown, before());

    expect(table.models.get("movies")!.serving).toEqual(key(1));
    expect(movies(table).key).toEqual(key(1));
  });

  test("a number that is not the default changes content as carefully", () => {
    const beside = (old: HoldingWords, next: HoldingWords): WorkerWords[] =>
      ["a", "b"].map((id) => ({ id, versions: [v(2), old, next] }));
    const withTwo = {
      ...context,
      tables: new Map([...context.tables, [fingerprint(printOf(2)), [spec()]] as const]),
    };
    const old = v(1, { state: "unloading" });
    const first = build(beside(v(1), anew({ state: "loading" })), withTwo);
    const during = build(beside(old, anew({ state: "loading" })), withTwo, first);
    const after = build(beside(old, anew()), withTwo, during);

    expect(movies(during).key).toEqual(key(1));
    expect(movies(after).key.fingerprint).toBe(NEW);
    expect(after.models.get("movies")!.serving).toEqual(key(2));
  });

  test("the content that is to be asked is not available while it is refused, whatever else is there", () => {
    const unread = { ...context, tables: new Map([[NEW, [spec()]]]) };
    const saved = new Map([["movies", key(1)]]);
    const next = anew({ state: "loading" });

    const table = build(both(leaving, next), { ...unread, saved });

    expect(movies(table).key).toEqual(key(1));
    expect(movies(table).refusal?.code).toBe("UNAVAILABLE");
    expect(movies(table).status.state).toBe("LOADING");
  });

  test("of two contents of which none is in use, the one that can be asked is", () => {
    const two = v(2);
    const old = v(1, { state: "unloading" });
    const workers = ["a", "b"].map((id) => ({ id, versions: [two, old, anew()] }));
    const tables = new Map([...context.tables, [fingerprint(printOf(2)), [spec()]] as const]);

    for (const warming of [NEW, key(1).fingerprint]) {
      const table = build(workers, { ...context, tables, warming: new Set([warming]) });

      expect(movies(table).key.fingerprint).not.toBe(warming);
      expect(movies(table).status.state).toBe("AVAILABLE");
    }
  });

  const prints = [printOf(1), "f".repeat(64), undefined] as const;
  const holding = fc.record({
    version: fc.constantFrom(1, 2),
    print: fc.constantFrom(...prints),
    state: fc.constantFrom("loading", "ready", "unloading", "failed"),
    held: fc.subarray([0, 1, 2, 3]),
    serving: fc.boolean(),
  });
  const shape = { selector: ({ version, print }: HoldingWords) => `${version}/${print}` };
  const worker = fc.uniqueArray(holding, { ...shape, maxLength: 4 });
  const known = [fingerprint(printOf(1)), NEW];
  const moment = fc.record({
    workers: fc.array(worker, { minLength: 1, maxLength: 3 }),
    programs: fc.subarray(known),
    warming: fc.subarray(known),
  });

  test("what is said to be available is never refused", () => {
    fc.assert(
      fc.property(fc.array(moment, { minLength: 1, maxLength: 4 }), (moments) => {
        let table: RoutingTable | undefined;
        for (const { workers, programs, warming } of moments) {
          const tables = new Map(programs.map((print) => [print, [spec()]] as const));
          const now = { tables, warming: new Set(warming), replication: 2 };
          const words = workers.map((versions, at) => ({ id: "abc".charAt(at), versions }));
          table = build(words, now, table);
          const versions = table.models.get("movies")?.versions ?? [];
          const available = versions.filter(({ status }) => status.state === "AVAILABLE");
          expect(available.filter(({ refusal }) => refusal !== undefined)).toEqual([]);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("files that are still being copied are told of, and hide nothing that answers", () => {
    const copying = { ...announced({ id: "a", versions: [v(1)] }) };
    const error = { code: "UNAVAILABLE", message: "its files still change" } as const;
    const unread = {
      model: "movies",
      fingerprint: undefined,
      state: "loading",
      tables: [],
    } as const;
    const table = buildRoutingTable(
      [
        {
          ...copying,
          versions: [
            ...copying.versions,
            { ...unread, version: 1, error },
            { ...unread, version: 2, error },
          ],
        },
      ],
      context,
    );

    const states = table.models.get("movies")!.versions.map(({ key: { version }, status }) => {
      return `${version} ${status.state} ${status.error?.message ?? ""}`;
    });
    expect(states).toEqual([
      "2 START a: its files still change",
      "1 AVAILABLE a: its files still change",
    ]);
  });
});
