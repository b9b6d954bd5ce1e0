// Who is taken on, and that nobody is refused for those that come after him.

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Admission } from "./admission.ts";

const limits = {
  inFlightRequestsMax: 100,
  waitingRowsMax: 10_000,
  waitShareMax: 0.5,
  smallRowsMax: 32,
};

/** Admission at a pace; `undefined`: none is known. */
function admissionAt(rowsPerMs: number | undefined, more: Partial<typeof limits> = {}) {
  const clock = new ManualClock();
  const refusals: string[] = [];
  const admission = new Admission(
    { clock, rowsPerMs: () => rowsPerMs, onRefused: (reason) => refusals.push(reason) },
    { ...limits, ...more },
  );
  const admit = (rows: number, leftMs = 30_000) =>
    admission.admit({ rows, deadlineMs: clock.nowMs() + leftMs });
  return { clock, admission, admit, refusals };
}

describe("Admission", () => {
  test("(R1) refuses the request that is one too many", () => {
    const { admit, refusals } = admissionAt(undefined, { inFlightRequestsMax: 2 });
    const first = admit(0);
    admit(1);

    expect(() => admit(0)).toThrow("This router is busy with 2 requests; try again later");
    expect(Error.stackTraceLimit).toBeGreaterThan(0);
    first.release();
    expect(() => admit(0)).not.toThrow();
    expect(refusals).toEqual(["requests"]);
  });

  test("(R1) refuses large requests above its rows, but not small ones", () => {
    const { admission, admit, refusals } = admissionAt(undefined);
    admit(4096);
    const second = admit(4096);

    expect(() => admit(4096)).toThrow(expect.objectContaining({ code: "UNAVAILABLE" }));
    admit(32);
    expect(admission.rows).toBe(8224);
    second.answered(4000);
    expect(() => admit(4096)).not.toThrow();
    expect(refusals).toEqual(["rows"]);
  });

  test("takes on the first request whatever its size", () => {
    const { admit } = admissionAt(0.001);

    expect(() => admit(20_000)).not.toThrow();
  });

  test("refuses what could begin only when most of its time has passed", () => {
    const { admit, refusals } = admissionAt(2, { waitingRowsMax: 1e9 });
    const taken = Array.from({ length: 8 }, () => admit(4096));

    expect(() => admit(4096)).toThrow("This router is busy for the next 17 s; try again later");
    taken[0]!.answered(3000);
    expect(() => admit(4096)).not.toThrow();
    expect(refusals).toEqual(["time"]);
  });

  test.each([0.001, 0])("is busy no longer than requests may take, at a pace of %d", (pace) => {
    const { admit } = admissionAt(pace, { waitingRowsMax: 1e9 });
    admit(4096);

    expect(() => admit(4096)).toThrow("This router is busy for the next 30 s; try again later");
  });

  test("does not count what is due later: a single query passes thousands", () => {
    const { clock, admit } = admissionAt(1);
    admit(9000);
    clock.advance(100);

    expect(() => admit(1, 1000)).not.toThrow();
    expect(() => admit(200, 1000)).not.toThrow();
    expect(() => admit(400, 1000)).not.toThrow();
    expect(() => admit(400, 1000)).toThrow(expect.objectContaining({ code: "UNAVAILABLE" }));
  });

  test("does not refuse a small request for large ones, however long they have waited", () => {
    const { clock, admit } = admissionAt(0.1, { waitingRowsMax: 1e9 });
    for (let at = 0; at < 20; at += 1) admit(64, 10_000_000);
    clock.advance(5000);

    expect(() => admit(64, 20_000)).toThrow(expect.objectContaining({ code: "UNAVAILABLE" }));
    expect(() => admit(32, 1000)).not.toThrow();
    expect(() => admit(32, 1000)).not.toThrow();
    expect(() => admit(32, 1000)).toThrow(expect.objectContaining({ code: "UNAVAILABLE" }));
  });

  test("a request that is released twice is a bug", () => {
    const { admit } = admissionAt(undefined);
    const admitted = admit(5);

    admitted.release();

    expect(() => admitted.release()).toThrow(RangeError);
  });

  test("counts the rows of those it has taken on, never below 0 and none in the end", () => {
    const move = fc.tuple(fc.nat(9), fc.nat(5000), fc.boolean());
    fc.assert(
      fc.property(fc.array(move, { maxLength: 50 }), (moves) => {
        const { admission, admit } = admissionAt(undefined, { waitingRowsMax: 1e9 });
        const open: { rows: number; admitted: ReturnType<typeof admit> }[] = [];
        for (const [at, rows, isNew] of moves) {
          const one = open[at];
          if (isNew || one === undefined) open.push({ rows, admitted: admit(rows) });
          else {
            one.admitted.answered(rows);
            one.rows = Math.max(0, one.rows - rows);
          }
          expect(admission.rows).toBe(open.reduce((sum, each) => sum + each.rows, 0));
        }
        for (const { admitted } of open) admitted.release();
        expect(admission.rows).toBe(0);
      }),
    );
  });
});
