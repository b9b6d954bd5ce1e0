// Turns between models: as fair as their costs allow, within bounds, and nothing lost.

import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { FairQueue } from "./fair-queue.ts";

interface Item {
  readonly bytes: number;
  readonly name: string;
}

const item = (name: string, bytes = 1): Item => ({ name, bytes });
const LIMITS = { itemsMax: 1000, bytesMax: 1000 };

/** Takes the next item, which takes `ms`. */
function runNext(queue: FairQueue<Item>, ms: (model: string) => number): string {
  const next = queue.peek();
  if (next === undefined) return "";
  const chargedMs = queue.take();
  queue.settle(next.model, chargedMs, ms(next.model));
  return next.item.name;
}

describe("FairQueue", () => {
  test("lets a short model run until it has had as much time as a long one", () => {
    const queue = new FairQueue<Item>(LIMITS);
    for (let at = 0; at < 30; at += 1) {
      queue.push("long", item("long"));
      queue.push("short", item("short"));
    }

    const order = Array.from({ length: 24 }, () =>
      runNext(queue, (model) => (model === "long" ? 10 : 1)),
    );

    const isLong = order.map((name) => name === "long");
    expect(isLong.filter(Boolean)).toHaveLength(3);
    expect(order[0]).toBe("long");
    expect(order.slice(1, 11)).toEqual(Array.from({ length: 10 }, () => "short"));
  });

  test("lets nobody save up turns while it asks nothing", () => {
    const queue = new FairQueue<Item>(LIMITS);
    const ms = (): number => 1;
    queue.push("late", item("late"));
    runNext(queue, ms);
    for (let at = 0; at < 100; at += 1) queue.push("busy", item("busy"));
    for (let at = 0; at < 90; at += 1) runNext(queue, ms);
    for (let at = 0; at < 10; at += 1) queue.push("late", item("late"));

    const order = Array.from({ length: 10 }, () => runNext(queue, ms));

    expect(order.filter((name) => name === "late").length).toBeLessThanOrEqual(6);
  });

  test("bounds the items of a model and the bytes of all, and takes a large one alone", () => {
    const queue = new FairQueue<Item>({ itemsMax: 2, bytesMax: 10 });
    const large = item("large", 1000);

    expect(queue.refusalOf("a", large)).toBeUndefined();
    queue.push("a", item("first", 4));
    queue.push("a", item("second", 4));

    expect(queue.refusalOf("a", item("third"))).toBe(
      "2 dense runs are waiting; at most that many may",
    );
    expect(queue.refusalOf("b", item("small", 2))).toBeUndefined();
    expect(queue.refusalOf("b", item("small", 3))).toBe(
      "dense runs of 8 bytes are waiting; 10 may",
    );
  });

  test("looks only at the models that have items", () => {
    const queue = new FairQueue<Item>(LIMITS);
    for (let at = 0; at < 200; at += 1) {
      queue.push(`idle${at}`, item("idle"));
      if (at % 2 === 0) runNext(queue, () => 1);
      else queue.removeAll();
    }
    queue.push("busy", item("busy"));

    const looks = vi.spyOn(Object.getPrototypeOf(new Map().entries()), "next");
    const next = queue.peek();
    const looked = looks.mock.calls.length;
    looks.mockRestore();

    expect([next?.model, looked]).toEqual(["busy", 2]);
  });

  test("gives back an item that waits, once", () => {
    const queue = new FairQueue<Item>(LIMITS);
    const [first, second] = [item("first"), item("second")];
    queue.push("a", first);
    queue.push("a", second);

    const removed = [second, second].map((each) => queue.remove("a", each));

    expect([removed, queue.length, queue.peek()?.item]).toEqual([[true, false], 1, first]);
  });

  test("gives back what it was given: the items of each model in their order, none twice", () => {
    const action = fc.record({
      kind: fc.constantFrom("push", "first", "run", "removeModel"),
      model: fc.constantFrom("a", "b", "c"),
      ms: fc.nat({ max: 50 }),
    });
    fc.assert(
      fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
        const queue = new FairQueue<Item & { readonly model: string }>(LIMITS);
        const expected = new Map<string, string[]>();
        const taken: (string | undefined)[] = [];
        const wanted: (string | undefined)[] = [];
        for (const [at, { kind, model, ms }] of actions.entries()) {
          const line = expected.get(model) ?? [];
          expected.set(model, line);
          const added = { ...item(`${at}`), model };
          const next = queue.peek();
          if (kind === "push") {
            line.push(added.name);
            queue.push(model, added);
          } else if (kind === "first") {
            line.unshift(added.name);
            queue.push(model, added, { isFirst: true });
          } else if (kind === "run" && next !== undefined) {
            wanted.push(expected.get(next.model)?.shift());
            taken.push(next.item.name);
            queue.settle(next.model, queue.take(), ms);
          } else if (kind === "removeModel") {
            wanted.push(...line.splice(0));
            taken.push(...queue.removeAll((each) => each.model === model).map(({ name }) => name));
          }
        }
        expect(taken).toEqual(wanted);
        const left = [...expected.values()].reduce((sum, { length }) => sum + length, 0);
        expect(queue.length).toBe(left);
        expect(queue.removeAll()).toHaveLength(left);
        expect(queue.length).toBe(0);
      }),
    );
  });

  test("between models that always wait nobody is ahead by more than two longest runs", () => {
    const costs = fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 2, maxLength: 5 });
    fc.assert(
      fc.property(costs, fc.integer({ min: 1, max: 300 }), (costsMs, turns) => {
        const queue = new FairQueue<Item>(LIMITS);
        const had = costsMs.map(() => 0);
        for (const at of costsMs.keys()) queue.push(`${at}`, item(`${at}`));
        for (let turn = 0; turn < turns; turn += 1) {
          const at = Number(runNext(queue, (model) => costsMs[Number(model)]!));
          had[at]! += costsMs[at]!;
          queue.push(`${at}`, item(`${at}`));
        }
        expect(Math.max(...had) - Math.min(...had)).toBeLessThanOrEqual(2 * Math.max(...costsMs));
      }),
    );
  });
});
