// A configuration file over its life: read, changed, broken, lost and back again.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { WinnowError, silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test, vi } from "vitest";
import { openConfigFile } from "./config-file.ts";

function disk(text: string) {
  const clock = new ManualClock();
  const faults: string[] = [];
  const file = { text: text as string | undefined };
  const log = {
    ...silentLogger,
    error: (_event: string, fields?: Readonly<Record<string, unknown>>) => {
      faults.push(String(fields?.["message"]));
    },
  };
  const readText = async (): Promise<string> => {
    if (file.text === undefined) throw new WinnowError("NOT_FOUND", "gone");
    return file.text;
  };
  const read = (words: string): number => {
    if (/^\d+$/.test(words)) return Number(words);
    throw new WinnowError("INVALID_ARGUMENT", `no number: ${words}`);
  };
  const open = (pollMs: number) =>
    openConfigFile({ file: "f", flag: "--keys", read, pollMs }, { clock, log, readText });
  return { clock, faults, file, open, log, read };
}

describe("a configuration file", () => {
  test("that a Windows editor has saved begins behind its byte order mark", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "winnow-mark-"));
    const file = path.join(folder, "password");
    writeFileSync(file, "\uFEFFhunter2");
    const settings = { file, flag: "--keys", read: (text: string) => text, pollMs: 0 };

    const opened = await openConfigFile(settings, { clock: new ManualClock(), log: silentLogger });
    rmSync(folder, { recursive: true });

    expect(opened.initial).toBe("hunter2");
  });

  test("is told of when it changes, and only then", async () => {
    const { clock, file, open } = disk("1");
    const told: number[] = [];
    const config = await open(1000);
    config.follow((value) => told.push(value));

    await clock.advanceSettled(3000);
    file.text = "2";
    await clock.advanceSettled(3000);

    expect(config.initial).toBe(1);
    expect(told).toEqual([2]);
    config.close();
    expect(clock.pendingTimers).toBe(0);
  });

  test("that is broken or gone leaves the old configuration, says so once, and is read when mended", async () => {
    const { clock, faults, file, open } = disk("1");
    const told: number[] = [];
    const config = await open(1000);
    config.follow((value) => told.push(value));

    file.text = "broken";
    await clock.advanceSettled(3000);
    file.text = undefined;
    await clock.advanceSettled(3000);
    expect(told).toEqual([]);
    expect(faults).toEqual(["no number: broken", "gone"]);

    file.text = "3";
    await clock.advanceSettled(1000);
    await clock.advanceSettled(200);
    expect(told).toEqual([3]);
  });

  test("that is written line by line counts once it is whole, and nothing is said meanwhile", async () => {
    const { clock, faults, file, open } = disk("12");
    const told: number[] = [];
    const config = await open(1000);
    config.follow((value) => told.push(value));

    for (const written of ["", "3", "34", "345"]) {
      file.text = written;
      await clock.advanceSettled(1000);
      file.text = `${written}…`;
      await clock.advanceSettled(200);
    }
    expect([told, faults]).toEqual([[], []]);
    file.text = "3456";
    await clock.advanceSettled(1000);
    await clock.advanceSettled(200);

    expect([told, faults]).toEqual([[3456], []]);
  });

  test.each<readonly [what: string, put: (file: string) => void, fault: string]>([
    ["a directory", (file) => mkdirSync(file), "it is no file"],
    ["nothing but zeros without end", (file) => symlinkSync("/dev/zero", file), "it is no file"],
    [
      "a file of megabytes",
      (file) => writeFileSync(file, " ".repeat(2 ** 22 + 1)),
      "it has more than 4194304 bytes",
    ],
  ])(
    "that is replaced by %s is told of once, and read again when mended",
    async (...[, put, fault]) => {
      const { clock, faults, log, read } = disk("1");
      const place = path.join(mkdtempSync(path.join(tmpdir(), "winnow-config-")), "keys");
      writeFileSync(place, "1");
      const told: number[] = [];
      const config = await openConfigFile(
        { file: place, flag: "--keys", read, pollMs: 1000 },
        { clock, log },
      );
      config.follow((value) => told.push(value));
      const look = async (): Promise<void> => {
        for (const stepMs of [1000, 200]) {
          await clock.advanceSettled(stepMs);
          await vi.waitFor(() => expect(clock.pendingTimers).toBe(1));
        }
      };

      rmSync(place);
      put(place);
      for (let looks = 0; looks < 3; looks += 1) await look();
      expect(faults).toEqual([`Cannot read ${place} (--keys): ${fault}`]);
      rmSync(place, { recursive: true });
      writeFileSync(place, "2");
      await look();

      expect(told).toEqual([2]);
      config.close();
      rmSync(path.dirname(place), { recursive: true });
    },
  );

  test("is looked at once where the interval is 0", async () => {
    const { clock, open } = disk("1");
    const config = await open(0);

    config.follow(() => undefined);

    expect(clock.pendingTimers).toBe(0);
  });

  test("that is broken at the start is an error", async () => {
    await expect(disk("x").open(0)).rejects.toThrow("no number: x");
  });

  test("that does not exist at the start is named", async () => {
    const file = "/nowhere/models.config";
    const parts = { clock: new ManualClock(), log: silentLogger };

    const opened = openConfigFile({ file, flag: "--keys", read: () => 0, pollMs: 0 }, parts);

    await expect(opened).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(opened).rejects.toThrow(`${file} (--keys)`);
  });
});
