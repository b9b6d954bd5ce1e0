// Keys in files, and requests that present them: good ones, bad ones, too many of them.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { createKey, findKey, readKeys } from "./api-keys.ts";
import type { KeyRole } from "./api-keys.ts";
import { KeyGuard } from "./key-guard.ts";
import type { TooManyRequests } from "./key-guard.ts";

const made = (id: string, roles: readonly KeyRole[] = ["predict"], limits = {}) =>
  createKey({ id, roles, ...limits });
const digest = "sha256:".padEnd(71, "0");
const HOUR_MS = 3_600_000;

describe("a file of keys", () => {
  test("knows the keys that were made for it, whatever they may do, and no other", () => {
    const roles = fc.subarray<KeyRole>(["predict", "status", "administer"], { minLength: 1 });
    const amount = fc.option(fc.integer({ min: 1, max: 9_999_999 }), { nil: undefined });
    fc.assert(
      fc.property(roles, amount, amount, (roles, rate, concurrency) => {
        const { key, line } = createKey({ id: "shop-1", roles, rate, concurrency });
        const other = createKey({ id: "shop-1", roles });
        const keys = readKeys(`# a comment\n\n${line}\r\n`, "file");

        const found = findKey(keys, key);

        expect(found).toMatchObject({ id: "shop-1", ratePerSecond: rate });
        expect(found).toMatchObject({ concurrencyMax: concurrency, roles: new Set(roles) });
        expect(findKey(keys, other.key)).toBeUndefined();
        expect(line).not.toContain(key.slice(-43));
      }),
    );
  });

  test.each(["a b", "#shop", "", "Shop", `x\n${"y".repeat(3)}`])(
    "cannot hold one for the id %j, and says what an id is",
    (id) => {
      const text = 'is no id of a key: write up to 63 letters a-z, digits and "-"';

      expect(() => made(id)).toThrow(text);
    },
  );

  test.each([
    [["admin"], "admin"],
    [["predict", ""], ""],
    [[], ""],
  ])("has no roles %j", (roles, told) => {
    expect(() => createKey({ id: "shop", roles })).toThrow(
      `"${told}" is no role: write one or more of predict, status, administer`,
    );
  });

  test("is found by no part, extension or change of a key", () => {
    const { key, line } = made("shop");
    const keys = readKeys(line, "file");
    const flipped = Array.from(key, (each, at) => {
      const other = each === "A" ? "B" : "A";
      return key.slice(0, at) + other + key.slice(at + 1);
    });
    const attempts = [
      ...flipped,
      "",
      key.slice(0, -1),
      `${key}A`,
      key.toUpperCase(),
      line,
      line.split(" ")[1]!,
      "x".repeat(1e6),
    ];

    expect(attempts.map((attempt) => findKey(keys, attempt))).toEqual(
      attempts.map(() => undefined),
    );
    expect(findKey(keys, key)?.id).toBe("shop");
  });

  const secret = made("shop").key;
  test.each([
    ["", /file holds no key/],
    ["# nothing\n", /file holds no key/],
    [`shop ${digest}`, /Line 1 of file needs roles=/],
    [`shop ${digest} roles=`, /Line 1 of file needs roles=/],
    [`shop ${digest} roles=predict,root`, /needs roles=… with one or more of predict, status/],
    [`shop ${digest} roles=predict rate=0`, /rate must be a whole number from 1/],
    [`shop ${digest} roles=predict rate=fast`, /not "fast"/],
    [`shop ${digest} roles=predict roles=status`, /Line 1 of file: roles=…, .* stand once each/],
    [`shop ${digest} roles=predict rate=2 rate=9`, /Line 1 of file: .* stand once each/],
    [`shop ${digest} role=predict`, /after the digest only roles=/],
    [`shop sha256:00 roles=predict`, /behind the id goes sha256: and 64 hex digits/],
    [`Shop ${digest} roles=predict`, /must begin with an id/],
    [`a ${digest} roles=predict\n\na ${digest} roles=status`, /Line 3 of file: the id "a" stands/],
    [
      `a ${digest} roles=predict\nb ${digest} roles=status`,
      /Line 2 of file: the digest is that of "a"/,
    ],
    [`shop ${secret} roles=predict`, /Line 1 of file holds a key itself/],
    [secret, /Line 1 of file holds a key itself/],
  ])("that cannot be read is refused by its line, without a word of a key", (text, message) => {
    expect(() => readKeys(text, "file")).toThrow(message);
    expect(() => readKeys(text, "file")).not.toThrow(secret.slice(-43));
  });

  test("holds a bounded number of them", () => {
    const lines = Array.from(
      { length: 1025 },
      (_, at) => `k${at} sha256:${String(at).padStart(64, "0")} roles=predict`,
    );

    expect(readKeys(lines.slice(1).join("\n"), "file").size).toBe(1024);
    expect(() => readKeys(lines.join("\n"), "file")).toThrow("more than 1024 keys");
  });
});

describe("a guard", () => {
  const clock = new ManualClock();
  const shop = made("shop", ["predict"], { rate: 2, concurrency: 3 });
  const monitor = made("monitor", ["status"]);
  const file = (...lines: { line: string }[]) =>
    readKeys(lines.map(({ line }) => line).join("\n"), "file");
  const guarded = () => {
    const outcomes: string[] = [];
    const guard = new KeyGuard(file(shop, monitor), clock, (key, outcome) =>
      outcomes.push(`${key} ${outcome}`),
    );
    const ask = (key: string, role: KeyRole = "predict") => guard.admit(`Bearer ${key}`, [role]);
    return { guard, outcomes, ask };
  };

  test("lets a key in for its roles, and anybody known where none is asked for", () => {
    const { guard, ask, outcomes } = guarded();

    expect(ask(shop.key).key).toBe("shop");
    expect(guard.admit(`bEaReR  ${monitor.key} `, []).key).toBe("monitor");
    expect(guard.admit(`Bearer ${monitor.key}`, ["predict", "status"]).key).toBe("monitor");
    expect(() => ask(monitor.key)).toThrow(
      expect.objectContaining({
        code: "PERMISSION_DENIED",
        message: 'The key "monitor" may not do this: it needs the role predict',
      }),
    );
    expect(outcomes.at(-1)).toBe("monitor role");
  });

  test.each([
    [undefined, "missing"],
    ["", "missing"],
    ["Bearer", "unknown"],
    ["Bearer ", "unknown"],
    [`Basic ${shop.key}`, "unknown"],
    [shop.key, "unknown"],
    [`Bearer ${made("shop").key}`, "unknown"],
    [`Bearer ${made("nobody").key}`, "unknown"],
    [[`Bearer ${shop.key}`, `Bearer ${shop.key}`], "unknown"],
    [`Bearer ${shop.key}, Bearer ${monitor.key}`, "unknown"],
  ])("refuses %j, and does not say what was wrong with the key", (header, outcome) => {
    const { guard, outcomes } = guarded();

    expect(() => guard.admit(header, ["predict"])).toThrow(
      expect.objectContaining({ code: "UNAUTHENTICATED" }),
    );
    expect(() => guard.admit(header, ["predict"])).not.toThrow(/winnow_/);
    expect(outcomes[0]).toBe(` ${outcome}`);
  });

  test("lets no more in than a key's rate, and says when to come back", () => {
    const { ask, outcomes } = guarded();
    let admitted = 0;
    const refusals = new Set<string>();
    for (let ms = 0; ms < 10_000; ms += 10) {
      clock.advance(10);
      try {
        ask(shop.key).release();
        admitted += 1;
      } catch (error) {
        const { code, retryAfterSeconds } = error as TooManyRequests;
        refusals.add(`${code} ${retryAfterSeconds}`);
      }
    }

    expect([...refusals]).toEqual(["RESOURCE_EXHAUSTED 1"]);
    expect(admitted).toBeGreaterThanOrEqual(20);
    expect(admitted).toBeLessThanOrEqual(22);
    expect(outcomes).toContain("shop rate");
  });

  test("keeps to a key's rate while the clock is set back, or hours ahead", () => {
    let nowMs = 0;
    const guard = new KeyGuard(
      file(shop),
      Object.assign(new ManualClock(), { nowMs: () => nowMs }),
    );
    const ask = () => guard.admit(`Bearer ${shop.key}`, ["predict"]);
    const admittedOf = (asked: number): number =>
      Array.from({ length: asked }, () => {
        try {
          ask().release();
          return 1;
        } catch {
          return 0;
        }
      }).reduce<number>((sum, each) => sum + each, 0);

    const first = admittedOf(9);
    nowMs -= 5 * HOUR_MS;
    const back = admittedOf(9);
    nowMs += 1000;
    const later = admittedOf(9);
    nowMs += 7 * HOUR_MS;
    const ahead = admittedOf(9);

    expect([first, back, later, ahead]).toEqual([2, 0, 2, 2]);
  });

  test("lets no more in at the same time than a key may, until one is answered", () => {
    const many = made("many", ["predict"], { concurrency: 3 });
    const guard = new KeyGuard(file(many), clock);
    const ask = () => guard.admit(`Bearer ${many.key}`, ["predict"]);
    const [first] = [ask(), ask(), ask()];

    expect(ask).toThrow('The key "many" has 3 requests under way');
    first?.release();
    ask();
    expect(ask).toThrow(expect.objectContaining({ retryAfterSeconds: 1 }) as TooManyRequests);
  });

  test("forgets keys that are gone, knows new ones, and what the others have used", () => {
    const { guard, ask } = guarded();
    const next = made("shop", ["predict"], { rate: 2 });
    clock.advance(10_000);
    ask(shop.key);
    ask(shop.key);
    guard.replaceKeys(file(shop));
    expect(() => ask(shop.key)).toThrow("2 times a second");
    expect(() => ask(monitor.key, "status")).toThrow("not known here");

    guard.replaceKeys(file(next, monitor));
    clock.advance(10_000);

    expect(() => ask(shop.key)).toThrow("not known here");
    expect([ask(next.key).key, ask(monitor.key, "status").key]).toEqual(["shop", "monitor"]);
  });
});
