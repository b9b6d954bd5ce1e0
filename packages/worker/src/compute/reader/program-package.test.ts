// What travels to routers with a program: whole tables, and never one that was misread.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { decodeProgramPackage } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { packProgram } from "./program-package.ts";

const USERS = 300;
const DIM = 4;

describe("the program of a version, as it travels", () => {
  let folder: string;
  let directory: string;
  let data: string;

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "winnow-program-"));
    await writeDemo(folder, { items: 50, users: USERS, dim: DIM, k: 5 });
    directory = path.join(folder, "movies", "1");
    data = path.join(directory, "variables", "variables.data-00000-of-00001");
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const pack = (tableBytesMax: number) => {
    const version = openModelVersion(directory);
    try {
      return decodeProgramPackage(packProgram(version, tableBytesMax));
    } finally {
      version.close();
    }
  };

  test("takes along the keyed tables that are small enough, and no candidates", () => {
    const bytes = (USERS + 1) * DIM * 4;
    const { program, inlineTables } = pack(bytes);
    const [[table, inline] = []] = [...inlineTables];
    expect(inlineTables.size).toBe(1);
    expect(program.tables[table!]?.kind).toBe("keyed");
    expect(inline?.values.byteLength).toBe(bytes);
    expect(pack(bytes - 1).inlineTables.size).toBe(0);
  });

  test("(S7) is refused for any flipped byte of such a table, with the file's name", () => {
    const sound = readFileSync(data);
    const { program, inlineTables } = pack(Infinity);
    const [[table, inline] = []] = [...inlineTables];
    const rows = Buffer.from(inline!.values.slice().buffer);
    const start = sound.indexOf(rows);
    const source = program.tables[table!]!.sources[0]!;
    for (const at of [0, 1, DIM * 4 * 7, rows.length - 4]) {
      const spoilt = Buffer.from(sound);
      spoilt[start + at]! ^= 1;
      writeFileSync(data, spoilt);
      try {
        expect(() => pack(Infinity)).toThrow(
          expect.objectContaining({
            code: "DATA_LOSS",
            message: expect.stringMatching(`"${source.tensor}".*${source.file}`) as string,
          }),
        );
      } finally {
        writeFileSync(data, sound);
      }
    }
    expect(start).toBeGreaterThanOrEqual(0);
  });
});
