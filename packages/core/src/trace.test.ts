// What a header `traceparent` says by W3C's rules, and how frames carry it.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseTraceparent, traceContextBytes, traceContextOf } from "./trace.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN = "00f067aa0ba902b7";

describe("a header traceparent", () => {
  test("names trace, span and whether it is sampled", () => {
    const context = { traceId: TRACE, spanId: SPAN };

    expect(parseTraceparent(`00-${TRACE}-${SPAN}-01`)).toEqual({ ...context, isSampled: true });
    expect(parseTraceparent(`00-${TRACE}-${SPAN}-00`)).toEqual({ ...context, isSampled: false });
  });

  test("of a later version may have more behind, and other flags", () => {
    expect(parseTraceparent(`cc-${TRACE}-${SPAN}-03-what-will-be`)?.isSampled).toBe(true);
  });

  test.each([
    undefined,
    ["two", "headers"],
    "",
    "text",
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-1`,
  ])("is as if it were not there where it is none: %j", (header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });
});

describe("a context in a frame", () => {
  test("is what was sent", () => {
    const hex = (length: number) =>
      fc.stringMatching(new RegExp(`^[0-9a-f]{${length - 1}}[1-9a-f]$`));
    const contexts = fc.record({ traceId: hex(32), spanId: hex(16), isSampled: fc.boolean() });

    fc.assert(
      fc.property(contexts, (context) => {
        expect(traceContextOf(traceContextBytes(context))).toEqual(context);
      }),
    );
  });

  test("of another length, or of no ids, is passed over", () => {
    expect(traceContextOf(new Uint8Array(24).fill(1))).toBeUndefined();
    expect(traceContextOf(new Uint8Array(26).fill(1))).toBeUndefined();
    expect(traceContextOf(new Uint8Array(25))).toBeUndefined();
  });
});
