// When a worker is trusted: suspicion by pings, ejection by failures, and what does not count.

import { silentLogger, tensor } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { Pong, Question } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import { fakeData, FakeWorker, version } from "../doubles/fake-cluster.ts";
import { resolveRouterOptions } from "../router-settings.ts";
import { WorkerPeer } from "./worker-peer.ts";

const pong: Pong = { sequence: 1, queueRows: 0, progress: 1, stalled: false };
const question: Question = {
  version,
  table: 0,
  partitions: new Uint16Array([0]),
  ask: { kind: "lookup", keys: tensor("int64", [0], new BigInt64Array()) },
  deadlineMs: 1e9,
};

function peerAndWorker(others: WorkerPeer[] = []): {
  clock: ManualClock;
  peer: WorkerPeer;
  worker: FakeWorker;
} {
  const clock = new ManualClock();
  const environment = { clock, random: () => 0.5, log: silentLogger };
  const data = fakeData({ rows: 4, dim: 1, partitions: 1 }, () => 0);
  const worker = new FakeWorker(clock, data, { id: "w0", held: [0] });
  const settings = resolveRouterOptions();
  const peer = new WorkerPeer({ id: worker.id, environment, settings, peers: () => others });
  peer.attach(worker);
  peer.onAnnouncement(worker.announcement());
  return { clock, peer, worker };
}

function tick(on: { clock: ManualClock; peer: WorkerPeer }, times: number): void {
  for (let each = 0; each < times; each += 1) {
    on.clock.advance(100);
    on.peer.tick();
  }
}

describe("suspicion", () => {
  test("three unanswered pings make a worker suspect, answers end it a second later", () => {
    const on = peerAndWorker();

    tick(on, 3);
    const afterTwoMisses = on.peer.trusted;
    tick(on, 1);
    const afterThree = on.peer.trusted;
    on.peer.onPong(pong);
    tick(on, 1);
    const justBack = on.peer.trusted;
    on.clock.advance(1000);

    expect([afterTwoMisses, afterThree, justBack, on.peer.trusted]).toEqual([
      true,
      false,
      false,
      true,
    ]);
  });

  test("where the others answer late, a worker is suspect after twice as long, and after nine pings at the latest", () => {
    const other = peerAndWorker();
    const on = peerAndWorker([other.peer]);
    const missesUntilSuspect = (): number => {
      let pings = 0;
      for (; on.peer.trusted; pings += 1) tick(on, 1);
      on.peer.onPong(pong);
      tick(on, 1);
      on.peer.onPong(pong);
      on.clock.advance(1000);
      return pings - 1;
    };

    // Of the other peer's own clock, which stands still but here.
    const quick = missesUntilSuspect();
    tick(other, 1);
    other.clock.advance(260);
    other.peer.onPong(pong);
    const late = missesUntilSuspect();
    tick(other, 6);
    other.clock.advance(3000);
    other.peer.onPong(pong);

    expect([quick, late, missesUntilSuspect()]).toEqual([3, 6, 9]);
  });

  test("a worker nobody asks is pinged after half a second, then ever more seldom, until it is asked", () => {
    const on = peerAndWorker();
    const answered = (): void => {
      tick(on, 1);
      on.peer.onPong(pong);
    };

    for (let each = 0; each < 51; each += 1) answered();
    const atRest = on.worker.pings;
    on.peer.ask(question, { onReply: () => undefined, onDoubt: () => undefined });
    for (let each = 0; each < 5; each += 1) answered();

    // At 0.1, 0.6, 1.6, 3.1 and 4.6 s; then with the question, which is answered, and the tick after it.
    expect([atRest, on.worker.pings]).toEqual([5, 7]);
  });

  test("a worker under load is pinged with its first question and every tick", () => {
    const on = peerAndWorker();

    for (let each = 0; each < 20; each += 1) {
      on.peer.ask(question, { onReply: () => undefined, onDoubt: () => undefined });
      tick(on, 1);
      on.peer.onPong(pong);
    }

    expect(on.worker.pings).toBe(21);
  });

  test("one that fell silent while idle is suspect 0.35 s after the first question at the latest", () => {
    const on = peerAndWorker();
    tick(on, 1);
    on.peer.onPong(pong);
    tick(on, 2);
    on.worker.behave = () => "silent";

    let doubts = 0;
    on.clock.advance(95);
    on.peer.ask(question, { onReply: () => undefined, onDoubt: () => (doubts += 1) });
    on.clock.advance(5);
    on.peer.tick();
    tick(on, 2);
    const before = doubts;
    tick(on, 1);

    expect([before, doubts]).toEqual([0, 1]);
  });

  test("a worker that says it is stalled is suspect at once, though it answers", () => {
    const { peer, clock } = peerAndWorker();
    let doubts = 0;
    peer.ask(question, { onReply: () => undefined, onDoubt: () => (doubts += 1) });

    peer.onPong({ ...pong, stalled: true });
    clock.advance(5000);

    expect(peer.trusted).toBe(false);
    expect(doubts).toBe(1);
  });

  test("a suspect worker can still be asked (panic rule)", () => {
    const on = peerAndWorker();
    tick(on, 10);

    expect(on.peer.trusted).toBe(false);
    expect(on.peer.askable).toBe(true);
  });
});

describe("ejection", () => {
  test("five failures in a row eject, longer each time, with one question as a trial", () => {
    const { peer, clock } = peerAndWorker();
    const trustedAfter = (ms: number): boolean => {
      clock.advance(ms);
      return peer.trusted;
    };

    for (let failure = 0; failure < 4; failure += 1) peer.noteFailure();
    const afterFour = peer.trusted;
    peer.noteFailure();
    const ejected = peer.trusted;
    const onTrial = trustedAfter(1000);
    peer.noteFailure();
    const again = trustedAfter(1500);
    const later = trustedAfter(500);

    expect([afterFour, ejected, onTrial, again, later]).toEqual([true, false, true, false, true]);
  });

  test("while the trial question runs no other is sent there first; its answer ends the trial", () => {
    const { peer, clock } = peerAndWorker();
    for (let failure = 0; failure < 5; failure += 1) peer.noteFailure();
    clock.advance(1000);

    peer.ask(question, { onReply: () => undefined, onDoubt: () => undefined });
    const during = peer.trusted;
    clock.advance(5);

    expect(during).toBe(false);
    expect(peer.trusted).toBe(true);
    expect(peer.pending).toBe(0);
  });
});

describe("what is usual", () => {
  test("a question that was given up counts with the time that it was waited for, if that is unusual", () => {
    const { peer, clock, worker } = peerAndWorker();
    worker.delayMs = Infinity;
    const listener = { onReply: () => undefined, onDoubt: () => undefined };
    for (let each = 0; each < 10; each += 1) peer.latency.add(4);
    const give = (afterMs: number): void => {
      const asked = peer.ask(question, listener);
      clock.advance(afterMs);
      if (asked.state === "asked") asked.cancel();
      clock.advance(300);
    };

    give(2);
    const afterShort = peer.latency.percentiles();
    give(64);

    expect(afterShort).toEqual({ p50Ms: 4, p95Ms: 4, p99Ms: 4, answers: 10 });
    expect(peer.latency.percentiles()?.p50Ms).toBe(4);
    for (let each = 0; each < 10; each += 1) give(64);
    expect(peer.latency.percentiles()?.p99Ms).toBe(64);
  });

  test("tells since when it owes an answer, and when it gave one", () => {
    const { peer, clock, worker } = peerAndWorker();
    worker.delayMs = Infinity;
    const listener = { onReply: () => undefined, onDoubt: () => undefined };

    clock.advance(10);
    const first = peer.ask(question, listener);
    clock.advance(10);
    peer.ask(question, { ...listener });
    const oldest = peer.oldestAskedAtMs;
    if (first.state === "asked") first.cancel();

    expect([oldest, peer.oldestAskedAtMs, peer.answeredAtMs]).toEqual([10, 20, -Infinity]);
  });
});
