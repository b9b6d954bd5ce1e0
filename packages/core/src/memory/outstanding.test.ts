// Outstanding beside a Map by rising ids, which is what it means.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Outstanding } from "./outstanding.ts";

describe("what is outstanding", () => {
  test("is what a Map by rising ids would hold, however it comes and goes", () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.constant("add" as const) },
      { weight: 4, arbitrary: fc.nat(40) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
        const outstanding = new Outstanding<{ readonly number: number }>();
        const expected = new Map<number, { readonly number: number }>();
        let lastId = 0;
        for (const [number, action] of steps.entries()) {
          // Of those to be deleted some are there, some are gone, and one never was.
          const id = action === "add" ? outstanding.add({ number }) : Math.max(0, lastId - action);
          if (action === "add") expected.set(id, outstanding.get(id)!);
          expect(outstanding.get(id)).toEqual(expected.get(id));
          expect(action === "add" ? id > lastId : outstanding.delete(id)).toBe(
            action === "add" || expected.delete(id),
          );
          lastId = Math.max(lastId, id);
          expect(outstanding.size).toBe(expected.size);
          expect(outstanding.oldest).toBe(expected.values().next().value);
        }
        expect([...outstanding.entries()]).toEqual([...expected]);
        expect([...outstanding]).toEqual([...expected.values()]);
      }),
    );
  });

  test("stays small beside one that is never done", () => {
    const outstanding = new Outstanding<object>();
    const straggler = {};
    const stragglersId = outstanding.add(straggler);
    for (let round = 0; round < 100_000; round++) outstanding.delete(outstanding.add({}));

    expect(outstanding.get(stragglersId)).toBe(straggler);
    expect([...outstanding]).toEqual([straggler]);
  });

  test("leaves out what is deleted or added while it is told", () => {
    const outstanding = new Outstanding<{ readonly name: string }>();
    const ids = ["a", "b", "c"].map((name) => outstanding.add({ name }));

    const told: string[] = [];
    for (const { name } of outstanding) {
      told.push(name);
      outstanding.delete(ids[1]!);
      outstanding.add({ name: "late" });
    }

    expect(told).toEqual(["a", "c"]);
  });

  test("gives ids beyond 32 bits no place of another", () => {
    const outstanding = new Outstanding<object>();
    const id = outstanding.add({});
    expect(outstanding.get(id + 2 ** 32)).toBeUndefined();
    expect(outstanding.delete(id + 2 ** 40)).toBe(false);
    expect(outstanding.get(-1)).toBeUndefined();
    expect(outstanding.get(Number.NaN)).toBeUndefined();
  });
});
