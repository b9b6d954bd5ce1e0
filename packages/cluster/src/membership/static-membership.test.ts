// The common cases on a fixed list, and what is particular to lists.

import { WinnowError, silentLogger, workerId } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test } from "vitest";
import type { Announcement } from "../announcement/announcement.ts";
import { announced } from "../fixtures/announcement-words.ts";
import { RefusedRecords } from "../trust/refused-records.ts";
import { parseAddressRules } from "../trust/worker-address.ts";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";
import { Watcher, membershipCases } from "./membership.cases.ts";
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
    watcher: (refused) =>
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
        { members: parseMembers("w0@w0:7600,w1@w1:7600"), ...quick, ...(refused && { refused }) },
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
    const refused = new RefusedRecords(silentLogger);
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
      {
        members: parseMembers("w0@w0:1, w1@w1:1"),
        addresses: parseAddressRules("w0,w1"),
        refused,
      },
    );
    return { clock, alive, asked, refused, store, watcher: new Watcher(store) };
  };

  /** Members whose answers after the first arrive when the test says so. */
  const lagging = () => {
    const clock = new ManualClock();
    const answers: (() => void)[] = [];
    const known = new Set<string>();
    const store = new StaticMembership(
      {
        environment: { clock, random: () => 0, log: silentLogger },
        describe: (address) => {
          const answer = announced({ id: address.slice(0, 2) });
          if (!known.has(address)) {
            known.add(address);
            return Promise.resolve(answer);
          }
          return new Promise((resolve) => answers.push(() => resolve(answer)));
        },
      },
      { members: parseMembers("w0@w0:1, w1@w1:1") },
    );
    return { clock, answers, watcher: new Watcher(store) };
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

  test("takes its own lag for nobody's silence", async () => {
    const { clock, watcher, answers } = lagging();
    await clock.advanceSettled(10);

    // Both members are polled, the process sleeps, and afterwards only w0's answer is read.
    await clock.advanceSettled(300);
    clock.advance(4000);
    answers.shift()!();
    await clock.advanceSettled(0);
    const early = watcher.ids;
    for (const answer of answers.splice(0)) answer();
    await clock.advanceSettled(0);

    expect([early, watcher.ids]).toEqual(["w0 w1", "w0 w1"]);
  });

  test("L3: takes the answer of a worker that restarted with its clock set back", async () => {
    const { clock, alive, watcher } = setUp();
    await clock.advanceSettled(10);

    alive.set("w0:1", announced({ id: "w0", incarnation: 2 }));
    await clock.advanceSettled(400);

    expect(watcher.last!.workers[0]!.incarnation).toBe(2);
  });

  test("does not follow a member to an address that workers may not have", async () => {
    const { clock, alive, refused, watcher } = setUp();
    alive.set("w0:1", { ...announced({ id: "w0", incarnation: 4 }), address: "elsewhere:7600" });

    await clock.advanceSettled(4000);

    expect(watcher.ids).toBe("w1");
    expect(refused.counts.address).toBeGreaterThan(0);
  });

  test("I3: refuses the answer of a process that was replaced, until its successor is long gone", async () => {
    const { clock, alive, refused, watcher } = setUp();
    await clock.advanceSettled(10);
    alive.set("w0:1", announced({ id: "w0", incarnation: 4 }));
    await clock.advanceSettled(400);

    alive.set("w0:1", announced({ id: "w0", incarnation: 3 }));
    await clock.advanceSettled(400);
    expect(watcher.last!.workers[0]!.incarnation).toBe(4);
    expect(refused.counts.stale).toBeGreaterThan(0);
    await clock.advanceSettled(10_000);

    expect(watcher.last!.workers[0]!.incarnation).toBe(3);
  });

  test("asks nobody whose stream somebody else has, and at once whose stream ends", async () => {
    const { clock, alive, asked, store, watcher } = setUp();
    await clock.advanceSettled(10);
    const said = alive.get("w0:1")!;
    const later = announced({ id: "w0", incarnation: 3, versions: [{ version: 8 }] });

    store.hear(said, "w0:1");
    store.hear(later, "w0:1");
    store.hear(announced({ id: "w1", incarnation: 9 }), "elsewhere:1");
    asked.clear();
    for (let pong = 0; pong < 10; pong += 1) {
      await clock.advanceSettled(1000);
      store.hear(later, "w0:1");
    }
    const whileHeard = [asked.get("w0:1"), (asked.get("w1:1") ?? 0) > 0];
    const seen = watcher.last!.workers;
    alive.set("w0:1", later);
    store.lose(workerId("w0"));
    await clock.advanceSettled(1);

    expect(whileHeard).toEqual([undefined, true]);
    expect([seen[0]!.versions.length, seen[1]!.incarnation]).toEqual([1, 1]);
    expect(asked.get("w0:1")).toBe(1);
  });

  test("asks one whose stream says nothing any more", async () => {
    const { clock, alive, asked, store } = setUp();
    await clock.advanceSettled(10);
    store.hear(alive.get("w0:1")!, "w0:1");
    asked.clear();

    await clock.advanceSettled(3000);

    expect(asked.get("w0:1")).toBeGreaterThan(0);
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

  test.each(["w0@unix:/run/x:1", "dns:///w0:7600", "w0:0", "w0:70000", "w0@w0:1/x", "[::1%lo]:1"])(
    "refuses %s, which is not host:port",
    (entry) => {
      expect(() => parseMembers(entry)).toThrow("write id@host:port or host:port");
    },
  );

  test("refuses what is no address, and two members of one id, naming them", () => {
    expect(() => parseMembers("localhost")).toThrow('Cannot read member "localhost"');
    expect(() => parseMembers("a@b@c:1")).toThrow(WinnowError);
    expect(() => parseMembers("w@a:1,w@b:1")).toThrow("Each member needs an id of its own");
  });
});
