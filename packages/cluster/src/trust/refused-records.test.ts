// All refusals are counted, few are logged: nobody can fill the log with them.

import { WinnowError, silentLogger } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { RefusedRecords, refusalReason } from "./refused-records.ts";

describe("refused records", () => {
  const setUp = () => {
    const logged: unknown[] = [];
    const log = { ...silentLogger, warn: (_: string, fields?: object) => logged.push(fields) };
    return { logged, refused: new RefusedRecords(log) };
  };

  test("are logged once for each source, and again after it was believed", () => {
    const { logged, refused } = setUp();

    for (let round = 0; round < 3; round += 1) {
      refused.refuse("w0", "signature", "not signed");
      refused.refuse("w1", "malformed", "no JSON");
    }
    refused.accept("w0");
    refused.refuse("w0", "address", "elsewhere");

    expect(logged).toEqual([
      { source: "w0", reason: "signature", message: "not signed" },
      { source: "w1", reason: "malformed", message: "no JSON" },
      { source: "w0", reason: "address", message: "elsewhere", times: 4 },
    ]);
    expect(refused.counts).toEqual({
      malformed: 3,
      signature: 3,
      name: 0,
      address: 1,
      stale: 0,
      excess: 0,
    });
  });

  test("of a name that two clusters write in turns are logged at the first, the tenth, the hundredth", () => {
    const { logged, refused } = setUp();

    for (let second = 0; second < 3600; second += 1) {
      refused.refuse("w0", "signature", "signed with another secret");
      refused.accept("w0");
    }

    const told = { source: "w0", reason: "signature", message: "signed with another secret" };
    expect(logged).toEqual([
      told,
      { ...told, times: 10 },
      { ...told, times: 100 },
      { ...told, times: 1000 },
    ]);
    expect(refused.counts.signature).toBe(3600);
  });

  test("of endless sources with endless names fill neither log nor memory", () => {
    const { logged, refused } = setUp();

    for (let at = 0; at < 5000; at += 1)
      refused.refuse(`${at}`.repeat(300), "name", "x".repeat(999));

    expect(refused.counts.name).toBe(5000);
    expect(logged.length).toBeLessThanOrEqual(1024);
    expect(JSON.stringify(logged.at(-1)).length).toBeLessThan(700);
  });

  test.each([
    ["UNAUTHENTICATED" as const, "signature"],
    ["PERMISSION_DENIED" as const, "address"],
    ["INVALID_ARGUMENT" as const, "malformed"],
  ])("have a reason: %s is %s", (code, reason) => {
    expect(refusalReason(new WinnowError(code, "text"))).toBe(reason);
  });
});
