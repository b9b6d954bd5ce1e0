// An announcement is believed only if every field is what it must be.

import { WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { announced } from "./announcement.cases.ts";
import {
  announcementFromJson,
  announcementToJson,
  decodeAnnouncement,
  encodeAnnouncement,
} from "./announcement-codec.ts";

const anyAnnouncement = fc
  .record({
    id: fc.stringMatching(/^[a-z0-9_.:-]{1,20}$/),
    incarnation: fc.nat(),
    versions: fc.array(
      fc.record({
        version: fc.nat(),
        partitions: fc.integer({ min: 1, max: 40 }),
        held: fc.uniqueArray(fc.integer({ min: 0, max: 39 }), { minLength: 1 }),
        state: fc.constantFrom("loading" as const, "ready" as const, "failed" as const),
        sources: fc.integer({ min: 0, max: 3 }),
        serving: fc.constant(true),
      }),
      { maxLength: 3 },
    ),
  })
  .map(({ id, incarnation, versions }) =>
    announced({
      id,
      incarnation,
      versions: versions.map(({ held, partitions, sources, ...rest }) => ({
        ...rest,
        partitions,
        held: held.filter((partition) => partition < partitions).toSorted((a, b) => a - b),
        share: (partition: number) =>
          Array.from({ length: sources }, (_, source) => 2 ** 32 - 1 - partition - source),
      })),
    }),
  );

describe("an announcement", () => {
  test("is the same after JSON and after the message form", () => {
    fc.assert(
      fc.property(anyAnnouncement, (announcement) => {
        expect(announcementFromJson(announcementToJson(announcement))).toEqual(announcement);
        expect(decodeAnnouncement(encodeAnnouncement(announcement))).toEqual(announcement);
      }),
    );
  });

  test("of 1024 partitions with two sources takes less than 12 KB", () => {
    const held = Array.from({ length: 1024 }, (_, partition) => partition);
    const share = (partition: number) => [partition * 4_000_037, partition];

    const text = announcementToJson(
      announced({ id: "a", versions: [{ version: 1, partitions: 1024, held, share }] }),
    );

    expect(text.length).toBeLessThan(12_000);
  });

  test("is refused for each field that cannot be", () => {
    const good = JSON.parse(
      announcementToJson(announced({ id: "a", versions: [{ version: 1 }] })),
    ) as { versions: { tables: Record<string, unknown>[] }[] };
    const [version] = good.versions;
    const [table] = version!.tables;
    const withTable = (change: object) => ({
      ...good,
      versions: [{ ...version, tables: [{ ...table, ...change }] }],
    });
    const withVersion = (change: object) => ({ ...good, versions: [{ ...version, ...change }] });

    const hostile: unknown[] = [
      undefined,
      null,
      7,
      "text",
      [],
      { ...good, worker_id: "" },
      { ...good, worker_id: "a b" },
      { ...good, worker_id: "x".repeat(300) },
      { ...good, incarnation: -1 },
      { ...good, incarnation: 2 ** 60 },
      { ...good, incarnation: "1" },
      { ...good, address: "nowhere" },
      { ...good, state: "constructor" },
      { ...good, device: "x".repeat(5000) },
      { ...good, versions: {} },
      { ...good, versions: Array.from({ length: 2000 }, () => version) },
      withVersion({ model: "../etc" }),
      withVersion({ version: 1.5 }),
      withVersion({ state: "READY" }),
      withVersion({ fingerprint: "a b" }),
      withVersion({ tables: [table, table] }),
      withTable({ table: -1 }),
      withTable({ partitions: 1e9 }),
      withTable({ held: "" }),
      withTable({ held: "/w==" }),
      withTable({ shares: "" }),
      withTable({ sources: 1000 }),
      withTable({ sources: 2 }),
    ];

    expect(() => decodeAnnouncement(good)).not.toThrow();
    for (const message of hostile) expect(() => decodeAnnouncement(message)).toThrow(WinnowError);
    expect(() => announcementFromJson("{")).toThrow(WinnowError);
  });
});
