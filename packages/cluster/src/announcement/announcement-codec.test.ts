// An announcement is accepted only if every field is valid.

import { TABLE_SOURCES_MAX, WinnowError } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Announcement } from "./announcement.ts";
import { announced } from "../fixtures/announcement-words.ts";
import {
  announcementFromJson,
  announcementToJson,
  decodeAnnouncement,
  encodeAnnouncement,
} from "./announcement-codec.ts";
import { parseAddress } from "../trust/worker-address.ts";

const anyAnnouncement = fc
  .record({
    id: fc.stringMatching(/^[a-z0-9](?:[a-z0-9_-]{0,18}[a-z])?$/).filter((id) => !/^\d+$/.test(id)),
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

/** Values that an attacker or a fault may put in the place of any field. */
const anyValue = fc.oneof(
  fc.anything({ maxDepth: 2 }),
  fc.constantFrom<unknown>(-1, 2 ** 53, 1e308, "", "__proto__", "w0:1", "unix:x:1", [], {}, true),
  fc.string({ maxLength: 2000 }),
);

/** A sound announcement in which some values were replaced, removed or cut. */
const damagedText = fc
  .tuple(anyAnnouncement, fc.array(fc.tuple(fc.nat(), anyValue), { maxLength: 3 }), fc.nat())
  .map(([announcement, changes, cut]) => {
    const message = JSON.parse(announcementToJson(announcement)) as object;
    for (const [at, value] of changes) {
      const places = placesIn(message);
      const { holder, key } = places[at % places.length]!;
      holder[key] = value;
    }
    const text = JSON.stringify(message, (_, value: unknown) =>
      typeof value === "bigint" ? value.toString() : value,
    );
    return cut % 4 === 0 ? text.slice(0, cut % (text.length + 1)) : text;
  });

interface Place {
  readonly holder: Record<string, unknown>;
  readonly key: string;
}

function placesIn(value: unknown, depth = 0): Place[] {
  if (typeof value !== "object" || value === null || depth > 6) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((key) =>
    [{ holder, key }].concat(placesIn(holder[key], depth + 1)),
  );
}

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

  test("of items that are computed of many stored tensors is read as it was written", () => {
    const share = (partition: number) =>
      Array.from({ length: TABLE_SOURCES_MAX }, (_, source) => partition * 1000 + source);
    const announcement = announced({
      id: "a",
      versions: [{ version: 1, partitions: 1024, held: [0, 1023], share }],
    });

    expect(decodeAnnouncement(encodeAnnouncement(announcement))).toEqual(announcement);
  });

  test("tells the machine that a worker shares with others", () => {
    const announcement = announced({ id: "a", machine: "m" });

    expect(decodeAnnouncement(encodeAnnouncement(announcement))).toEqual(announcement);
    expect(announcementFromJson(announcementToJson(announcement)).machine).toBe("m");
  });

  test("of a release that does not tell what it places by is read without it", () => {
    const announcement = announced({ id: "a", machine: "m" });
    const { release: _, placement: _p, machine: _m, ...message } = encodeAnnouncement(announcement);
    const { release: _release, placement: _text, machine: _machine, ...rest } = announcement;

    expect(decodeAnnouncement(message)).toEqual(rest);
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
      { ...good, release: 1 },
      { ...good, placement: "a\nb" },
      { ...good, machine: "a\nb" },
      { ...good, worker_id: "a b" },
      { ...good, worker_id: "x".repeat(300) },
      { ...good, incarnation: -1 },
      { ...good, incarnation: 2 ** 60 },
      { ...good, incarnation: "1" },
      { ...good, address: "nowhere" },
      { ...good, address: "unix:/run/docker.sock:1" },
      { ...good, address: "dns:///w0:7600" },
      { ...good, address: "user@w0:7600" },
      { ...good, address: "w0:65536" },
      { ...good, device: "line\nbreak" },
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

  test("that would take much memory to read is refused before it does", () => {
    const good = JSON.parse(
      announcementToJson(announced({ id: "a", versions: [{ version: 1 }] })),
    ) as { versions: { tables: object[] }[] };
    const table = { partitions: 65_536, sources: 16, shares: "", held: "" };
    const tables = Array.from({ length: 4096 }, (_, at) => ({ ...table, table: at }));
    const message = { ...good, versions: [{ ...good.versions[0], tables }] };

    expect(() => decodeAnnouncement(message)).toThrow(/version\.tables|table\.(partitions|held)/);
  });

  test("of any shape, or damaged anywhere, is read or refused in words; nothing else is thrown", () => {
    const anyText = fc.oneof(fc.json({ maxDepth: 6 }), fc.string({ maxLength: 200 }), damagedText);
    let read = 0;

    fc.assert(
      fc.property(anyText, (text) => {
        const announcement = readOrRefused(text);
        read += announcement === undefined ? 0 : 1;
        expect(announcement === undefined || parseAddress(announcement.address)).toBeTruthy();
        expect(announcement?.versions.length ?? 0).toBeLessThanOrEqual(1024);
      }),
      { numRuns: 3000 },
    );
    expect(read).toBeGreaterThan(50);
  });
});

/** The announcement; `undefined` if it was refused as expected. Other errors are thrown. */
function readOrRefused(text: string): Announcement | undefined {
  try {
    return announcementFromJson(text);
  } catch (error) {
    const isInWords = error instanceof WinnowError && error.message.length < 200;
    if (isInWords && error.code === "INVALID_ARGUMENT") return undefined;
    throw error;
  }
}
