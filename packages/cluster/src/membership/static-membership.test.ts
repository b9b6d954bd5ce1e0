// The common cases on a fixed list, and what is particular to lists.

import { ManualClock, WinnowError, silentLogger, workerId } from "@winnow/core";
import { describe, expect, test } from "vitest";
import type { Announcement } from "../announcement.ts";
import { announced } from "../announcement.cases.ts";
import { Watcher, environment, membershipCases } from "./membership.cases.ts";
import { StaticMembership, parseMembers } from "./static-membership.ts";

const quick = { pollMs: 10, steadyPollMs: 10, describeTimeoutMs: 50, silentAfterMs: 200 };

membershipCases("static", () => {
  const workers = new Map<string, Announcement>();
  let isBroken = false;
  return Promise.resolve({
    isListed: true,
    announce: (words) => {
      workers.set(`${words.id}:7600`, announced(words));
      return Promise.resolve();
    },
    leave: (id) => Promise.resolve(void workers.delete(`${id}:7600`)),
    kill: (id) => Promise.resolve(void workers.delete(`${id}:7600`)),
    breakStore: () => Promise.resolve(void (isBroken = true)),
    mendStore: () => Promise.resolve(void (isBroken = false)),
    poison: () => Promise.resolve(void workers.set("w1:7600", announced({ id: "w0" }))),
    watcher: () =>
      new StaticMembership(
        {
          environment,
          describe: (address) => {
            const answer = isBroken ? undefined : workers.get(address);
            return answer === undefined
              ? Promise.reject(new WinnowError("UNAVAILABLE", "nobody"))
              : Promise.resolve(answer);
          },
        },
        { members: parseMembers("w0@w0:7600,w1@w1:7600"), ...quick },
      ),
    close: () => Promise.resolve(),
  });
});

describe("StaticMembership", () => {
  const setUp = () => {
    const clock = new ManualClock();
    const alive = new Map([
      ["w0:1", announced({ id: "w0", incarnation: 3 })],
      ["w1:1", announced({ id: "w1" })],
    ]);
    const asked = new Map<string, number>();
    const store = new StaticMembership(
      {
        environment: { clock, random: () => 0, log: silentLogger },
        describe: (address) => {
          asked.set(address, (asked.get(address) ?? 0) + 1);
          const answer = alive.get(address);
          if (answer !== undefined) return Promise.resolve(answer);
          return Promise.reject(new WinnowError("UNAVAILABLE", "nobody"));
        },
      },
      { members: parseMembers("w0@w0:1, w1@w1:1") },
    );
    return { clock, alive, asked, store, watcher: new Watcher(store) };
  };

  test("lists a member that does not answer as silent, with its address", async () => {
    const { clock, alive, watcher } = setUp();
    await clock.advanceSettled(10);

    alive.delete("w1:1");
    await clock.advanceSettled(2900);
    expect(watcher.ids).toBe("w0 w1");
    await clock.advanceSettled(400);

    expect(watcher.ids).toBe("w0");
    expect(watcher.last!.silent).toEqual([{ workerId: "w1", address: "w1:1" }]);
    expect(watcher.last!.placementWorkers).toEqual(["w0", "w1"]);
  });

  test("asks seldom while all is as it was, and all of them often once one does not answer", async () => {
    const { clock, alive, asked } = setUp();
    await clock.advanceSettled(20_000);

    asked.clear();
    await clock.advanceSettled(10_000);
    const steady = [asked.get("w0:1"), asked.get("w1:1")];
    alive.delete("w1:1");
    await clock.advanceSettled(1000);
    asked.clear();
    await clock.advanceSettled(1500);
    const inDoubt = [asked.get("w0:1"), asked.get("w1:1")];
    await clock.advanceSettled(20_000);
    asked.clear();
    await clock.advanceSettled(10_000);

    expect(steady).toEqual([10, 10]);
    expect(inDoubt).toEqual([5, 5]);
    expect([asked.get("w0:1"), asked.get("w1:1")]).toEqual([10, 10]);
  });

  test("lists a member as silent in time, also one that falls silent after a long peace", async () => {
    const { clock, alive, watcher } = setUp();
    await clock.advanceSettled(60_000);

    alive.delete("w1:1");
    await clock.advanceSettled(1900);
    expect(watcher.ids).toBe("w0 w1");
    await clock.advanceSettled(1400);

    expect(watcher.ids).toBe("w0");
  });

  test("I3: refuses the answer of an older life", async () => {
    const { clock, alive, store, watcher } = setUp();
    await clock.advanceSettled(10);

    alive.set("w0:1", announced({ id: "w0", incarnation: 2 }));
    await clock.advanceSettled(400);

    expect(watcher.last!.workers[0]!.incarnation).toBe(3);
    expect(store.refusedRecords).toBeGreaterThan(0);
  });

  test("leaves no timer behind", async () => {
    const { clock, store } = setUp();
    await clock.advanceSettled(1000);

    await store.close();
    await clock.advanceSettled(0);

    expect(clock.pendingTimers).toBe(0);
  });
});

describe("parseMembers()", () => {
  test("reads ids and addresses; an address without an id is the id", () => {
    expect(parseMembers("w0@10.0.0.1:7600, [::1]:7600,")).toEqual([
      { workerId: workerId("w0"), address: "10.0.0.1:7600" },
      { workerId: workerId("[::1]:7600"), address: "[::1]:7600" },
    ]);
  });

  test("refuses what is no address, and two members of one id, naming them", () => {
    expect(() => parseMembers("localhost")).toThrow('Cannot read member "localhost"');
    expect(() => parseMembers("a@b@c:1")).toThrow(WinnowError);
    expect(() => parseMembers("w@a:1,w@b:1")).toThrow("Each member needs an id of its own");
  });
});
