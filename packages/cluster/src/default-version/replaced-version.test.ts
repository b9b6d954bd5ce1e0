// The default version while its directory is replaced in place: the same number, another content.

import { fingerprint } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { announced, printOf } from "../fixtures/announcement-words.ts";
import type { HoldingWords, WorkerWords } from "../fixtures/announcement-words.ts";
import { servingVersion } from "./rollout.ts";

const v = (version: number, more: Partial<HoldingWords> = {}): HoldingWords => ({
  version,
  ...more,
});

describe("servingVersion() of a version that is replaced in place", () => {
  const NEW = "f".repeat(64);
  const old = v(2, { state: "unloading" });
  const anew = (more: Partial<HoldingWords> = {}): HoldingWords => v(2, { print: NEW, ...more });
  const printAfter = (workers: readonly WorkerWords[]) => {
    const current = { model: "movies", version: 2, fingerprint: fingerprint(printOf(2)) };
    const context = { current, replication: 2 };
    const { version, fingerprint: print } =
      servingVersion("movies", workers.map(announced), context) ?? {};
    return print === NEW ? "new" : String(version);
  };

  test("moves to the new content once it is complete, and to no older version before", () => {
    const of = (id: string, next: HoldingWords): WorkerWords => ({
      id,
      versions: [v(1), old, next],
    });

    expect(printAfter([of("a", anew()), of("b", anew({ state: "loading" }))])).toBe("2");
    expect(printAfter([of("a", anew()), of("b", anew({ state: "failed", held: [] }))])).toBe("2");
    expect(printAfter([of("a", anew()), of("b", anew())])).toBe("new");
  });

  test("stays while any worker has not seen the replacement", () => {
    const late: WorkerWords = { id: "b", versions: [v(2)] };

    expect(printAfter([{ id: "a", versions: [old, anew()] }, late])).toBe("2");
  });

  test("goes back to an older version when nobody can load the replacement", () => {
    const of = (id: string): WorkerWords => ({
      id,
      versions: [v(1), old, anew({ state: "failed", held: [] })],
    });

    expect(printAfter([of("a"), of("b")])).toBe("1");
  });

  test("takes one replica of each partition where the old content leaves with a drain", () => {
    const restarted: WorkerWords = { id: "a", versions: [anew({ held: [0, 1, 2] })] };
    const leaving: WorkerWords = {
      id: "b",
      state: "draining",
      versions: [v(2, { held: [0, 1, 3] })],
    };
    const staying = (held: readonly number[]): WorkerWords => ({
      id: "c",
      versions: [v(2, { state: "unloading", held }), anew({ held: [2, 3] })],
    });

    expect(printAfter([restarted, leaving, staying([2, 3])])).toBe("new");
    // A version that can be answered without the worker in drain still waits for full replication.
    expect(printAfter([restarted, leaving, staying([0, 1, 2, 3])])).toBe("2");
  });
});
