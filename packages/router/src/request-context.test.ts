// The ends of a request: its deadline, its client, its answer; whichever is first, and none after it.

import { WinnowError } from "@winnow/core";
import { ManualClock } from "../../../test/doubles/manual-clock.ts";
import { describe, expect, test, vi } from "vitest";
import { RequestTimeline } from "./http/server/request-timeline.ts";
import { RequestContext } from "./request-context.ts";

const left = (): WinnowError => new WinnowError("CANCELLED", "left");

describe("RequestContext", () => {
  test("L2: its deadline aborts it, and whoever races with it hears why", async () => {
    const clock = new ManualClock();
    const context = new RequestContext(clock, { timeoutMs: 30 });
    const race = context.untilAborted(new Promise(() => undefined));
    const outcome = race.catch((error: unknown) => error);

    clock.advance(30);
    context.abort(left);

    expect(context.deadlineMs).toBe(clock.nowMs());
    expect(await outcome).toBe(context.signal.reason);
    expect(context.signal.reason).toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: "No answer within 30 ms",
    });
  });

  test("a deadline that had passed ends it with a timer of 0 ms: of a negative one Node warns", () => {
    const clock = new ManualClock();
    const delays = vi.spyOn(clock, "setTimer");
    const context = new RequestContext(clock, { timeoutMs: 30, clientMs: -1 });

    clock.advance(0);

    expect(context.signal.reason).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(delays.mock.calls.map(([delayMs]) => delayMs)).toEqual([0]);
  });

  test.each([
    [{ timeoutMs: 100, clientMs: 20 }, 20, "The client's deadline has passed"],
    [{ timeoutMs: 20, clientMs: 100 }, 20, "No answer within 20 ms"],
    [{ timeoutMs: 0, clientMs: 20 }, 20, "The client's deadline has passed"],
    [{ timeoutMs: 0 }, 86_400_000, "No answer within 86400000 ms"],
  ])("of %j the deadline is %i ms away", (timeouts, leftMs, message) => {
    const clock = new ManualClock();
    const context = new RequestContext(clock, timeouts);

    clock.advance(leftMs - 1);
    expect(context.signal.aborted).toBe(false);
    clock.advance(1);

    expect(context.signal.reason).toMatchObject({ code: "DEADLINE_EXCEEDED", message });
  });

  test("R5: once it is aborted or finished it holds no timer, and nothing aborts it", () => {
    const clock = new ManualClock();
    const aborted = new RequestContext(clock, { timeoutMs: 30 });
    const finished = new RequestContext(clock, { timeoutMs: 30 });

    aborted.abort(left);
    finished.finish();
    expect(clock.pendingTimers).toBe(0);
    finished.abort(left);

    expect(aborted.signal.reason).toMatchObject({ code: "CANCELLED" });
    expect(finished.signal.aborted).toBe(false);
  });

  test("a part of it ends alone, or with the whole, and notes what it does as the whole's", async () => {
    const clock = new ManualClock();
    const whole = new RequestContext(clock, { timeoutMs: 30 });
    const [alone, other, done] = [whole.part(), whole.part(), whole.part()];

    alone.abort(left);
    done.finish();
    await other.stage("dense", () => clock.advance(10));
    expect([whole, other].map(({ signal }) => signal.aborted)).toEqual([false, false]);
    clock.advance(20);

    expect(alone.signal.reason).toMatchObject({ message: "left" });
    expect(other.signal.reason).toBe(whole.signal.reason);
    const late = other.untilAborted(Promise.resolve(1)).catch((error: unknown) => error);
    expect(await late).toBe(whole.signal.reason);
    expect(whole.part().signal.reason).toBe(whole.signal.reason);
    expect(done.signal.aborted).toBe(false);
    expect(other.deadlineMs).toBe(whole.deadlineMs);
    expect([...whole.stages]).toEqual([["dense", 10]]);
    expect(clock.pendingTimers).toBe(0);
  });

  test.each(["not recorded", "recorded"])("tells how long a stage took that is %s", async (how) => {
    const clock = new ManualClock();
    const context = new RequestContext(clock, { timeoutMs: 30 });
    if (how === "recorded") context.span = new RequestTimeline(clock.nowMs(), undefined);
    const told: number[] = [];
    const work = async (): Promise<void> => clock.advance(7);
    const broken = async (): Promise<void> => {
      throw left();
    };

    await context.stage("topK", work, (elapsedMs) => told.push(elapsedMs));
    const failing = context.stage("topK", broken, (elapsedMs) => told.push(elapsedMs));

    await expect(failing).rejects.toMatchObject({ code: "CANCELLED" });
    expect(told).toEqual([7]);
    expect([...context.stages]).toEqual([["topK", 7]]);
  });
});
