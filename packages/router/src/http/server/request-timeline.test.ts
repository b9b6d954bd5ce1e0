// What a client is told that asks for the timeline of its request.

import type { TraceSpan } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { RequestTimeline } from "./request-timeline.ts";

describe("a timeline", () => {
  test("has every part that has ended, in ms from the request's begin, and whom it asked", () => {
    const timeline = new RequestTimeline(1000, undefined);
    const search = timeline.child("topK", 1000.25);
    const asked = { "winnow.worker": "w0", "winnow.partitions": 2, "winnow.attempt": "hedge" };
    search.child("ask worker", 1000.5, asked).end(1003, undefined, "it was left");
    search.child("ask worker", 1001, { "winnow.worker": "w\u00e9" });
    search.end(1004.0004);
    timeline.end(1005);

    const text = timeline.text();

    expect(JSON.parse(text)).toEqual([
      { name: "topK", fromMs: 0.25, toMs: 4 },
      {
        name: "ask worker",
        worker: "w0",
        partitions: 2,
        attempt: "hedge",
        fromMs: 0.5,
        toMs: 3,
        fault: "it was left",
      },
    ]);
  });

  test("is ASCII and bounded, whatever workers are called and however many are asked", () => {
    const timeline = new RequestTimeline(0, undefined);
    for (let at = 0; at < 1000; at += 1) {
      timeline.child("ask worker", at, { "winnow.worker": "w\u00e9\u2603" }).end(at + 1);
    }

    const text = timeline.text();

    expect(text).toMatch(/^[\x20-\x7e]*$/);
    expect(text.length).toBeLessThan(8192);
    expect((JSON.parse(text) as { worker: string }[])[0]!.worker).toBe("w\u00e9\u2603");
  });

  test("has as many parts as a header has room for where names are long", () => {
    const timeline = new RequestTimeline(0, undefined);
    for (let at = 0; at < 64; at += 1) {
      const asked = { "winnow.worker": `w${at}`.padEnd(255, "x") };
      timeline.child("ask worker", at, asked).end(at + 1, undefined, "\u2603".repeat(80));
    }

    const told = JSON.parse(timeline.text()) as { worker: string }[];

    expect(timeline.text().length).toBeLessThanOrEqual(8192);
    expect(told.length).toBeGreaterThan(5);
    expect(told.map(({ worker }) => worker.slice(0, 2)).slice(0, 3)).toEqual(["w0", "w1", "w2"]);
  });

  test("records for the collector what it takes note of", () => {
    const heard: string[] = [];
    const spanOf = (name: string): TraceSpan => ({
      context: { traceId: "1".repeat(32), spanId: "2".repeat(16), isSampled: true },
      child: (inner) => spanOf(`${name}/${inner}`),
      end: (endMs) => void heard.push(`${name} ${endMs}`),
    });
    const timeline = new RequestTimeline(0, spanOf("request"));
    const part = timeline.child("topK", 1);
    part.child("merge", 2).end(3);
    part.end(4);
    timeline.end(5);

    expect(heard).toEqual(["request/topK/merge 3", "request/topK 4", "request 5"]);
    expect(part.context.isSampled).toBe(true);
  });
});
