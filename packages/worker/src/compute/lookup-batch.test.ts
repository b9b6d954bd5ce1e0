// Lookups through the compute side's message channel.

import { StringColumn, decodeProgramPackage, partitionOfBytes } from "@winnow/core";
import { describe, expect, test } from "vitest";

import type { MemoryTable } from "./doubles/memory-model.ts";
import {
  DIM,
  NAME,
  candidates,
  everyPartition,
  integers,
  loaded,
  strings,
  valuesOf,
} from "./fixtures/loaded-tables.ts";
import { packKeys } from "./packed-keys.ts";

describe("lookup", () => {
  const words = Array.from({ length: 50 }, (_, index) => `word ${index}`);
  const table: MemoryTable = {
    kind: "strings",
    rows: 51,
    dim: DIM,
    values: valuesOf(51),
    keys: StringColumn.fromText(words),
  };
  const rowValues = (row: number): number[] => [
    ...table.values.subarray(row * DIM, (row + 1) * DIM),
  ];

  test("rows come in the order of the keys, unknown keys as the OOV row", async () => {
    const client = await loaded(table);
    const keys = ["word 7", "nobody", "word 49", "word 7"];

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [{ partitions: everyPartition(16), keys: packKeys(strings(keys)) }],
    });

    const [part] = answer.answers;
    expect(part).toEqual({
      vectors: Float32Array.from([8, 0, 50, 8].flatMap(rowValues)),
    });
  });

  test("whether keys are known comes in their order, beside asks of rows", async () => {
    const client = await loaded(table);
    const keys = ["word 7", "nobody", "word 49", "word 7"];
    const ask = { partitions: everyPartition(16), keys: packKeys(strings(keys)) };
    const home = Uint16Array.of(
      (partitionOfBytes(new TextEncoder().encode("nobody"), 16) + 1) % 16,
    );
    const lost = {
      partitions: home,
      keys: packKeys(strings(["nobody"])),
      knownOnly: true,
    } as const;

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [{ ...ask, knownOnly: true }, { ...ask, keys: packKeys(strings(["nobody"])) }, lost],
    });

    const [known, rows, refused] = answer.answers;
    expect(known).toEqual({ known: Uint8Array.of(1, 0, 1, 1) });
    expect(rows).toEqual({ vectors: Float32Array.from(rowValues(0)) });
    expect(refused).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
  });

  test("a key outside the asked partitions fails its own ask alone", async () => {
    const client = await loaded(table);
    const home = partitionOfBytes(new TextEncoder().encode("word 3"), 16);

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [
        { partitions: Uint16Array.of((home + 1) % 16), keys: packKeys(strings(["word 3"])) },
        { partitions: Uint16Array.of(home), keys: packKeys(strings(["word 3"])) },
      ],
    });

    expect(answer.answers[0]).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
    expect(answer.answers[1]).toEqual({ vectors: Float32Array.from(rowValues(4)) });
  });

  test("row numbers are keys; one outside the table is INVALID_ARGUMENT, and so are strings", async () => {
    const byRow: MemoryTable = { kind: "row", rows: 40, dim: DIM, values: valuesOf(40) };
    const client = await loaded(byRow);
    const partitions = everyPartition(16);

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [
        { partitions, keys: packKeys(integers([39, 0])) },
        { partitions, keys: packKeys(integers([40])) },
        { partitions, keys: packKeys(strings(["0"])) },
      ],
    });

    const values = [39, 0].flatMap((row) =>
      Array.from(byRow.values.subarray(row * DIM, (row + 1) * DIM)),
    );
    expect(answer.answers[0]).toEqual({ vectors: Float32Array.from(values) });
    expect(answer.answers[1]).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
    expect(answer.answers[2]).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
  });

  test("a small table travels whole with the program", async () => {
    const client = await loaded(table, candidates(20, undefined));

    const whole = decodeProgramPackage(await client.program(NAME.handle, 51 * DIM * 4));
    const none = decodeProgramPackage(await client.program(NAME.handle, 51 * DIM * 4 - 1));

    const inline = whole.inlineTables.get(0);
    expect(whole.inlineTables.size).toBe(1);
    expect(inline?.values).toEqual(table.values);
    const pairs = [...inline!.partition.keyRows].map((row, index) => [
      (inline!.partition.keys!.data as StringColumn).textAt(index),
      row,
    ]);
    expect(new Map(pairs as [string, number][])).toEqual(
      new Map(words.map((word, index) => [word, index + 1])),
    );
    expect(none.inlineTables.size).toBe(0);
  });
});
