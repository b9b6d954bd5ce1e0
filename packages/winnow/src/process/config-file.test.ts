// A configuration file over its life: read, changed, broken, lost and back again.

import { WinnowError, silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { describe, expect, test } from "vitest";
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
    openConfigFile({ file: "f", read, pollMs }, { clock, log, readText });
  return { clock, faults, file, open };
}

describe("a configuration file", () => {
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
    expect(told).toEqual([3]);
  });

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

    const opened = openConfigFile({ file, read: () => 0, pollMs: 0 }, parts);

    await expect(opened).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(opened).rejects.toThrow(file);
  });
});
