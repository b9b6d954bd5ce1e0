// What a process reads from its state file after faults of the disk or of the process.

import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { NEEDS_SMALL_DISK, smallDisk } from "../../../../test/small-disk.ts";
import { STATE_BYTES_MAX, openStateFile, stateFault, stateFileName } from "./state-file.ts";

let directory: string;
const nested = (): string => path.join(directory, "state");
const stored = (): string => path.join(nested(), "order");

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), "winnow-state-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const disk = smallDisk();
afterAll(() => disk?.remove());

describe("a state file", () => {
  test.skipIf(disk === undefined)(
    `stays as it was on a full disk, and says how much room is missing ${NEEDS_SMALL_DISK}`,
    async () => {
      const file = openStateFile(disk!.folder, "order");
      await file.write("first");
      disk!.fill();

      await expect(file.write("second".repeat(1000))).rejects.toMatchObject({
        code: "UNAVAILABLE",
        message: `Cannot write the state file ${disk!.folder}/order: the disk is full in ${disk!.folder}: 6064 bytes are needed, 0 bytes are free`,
      });
      expect(readdirSync(disk!.folder)).toEqual(["filler", "order"]);
      expect(await file.read()).toBe("first");
      disk!.empty();
      await file.write("third");
      expect(await file.read()).toBe("third");
    },
  );

  test("is nothing before it is written, and what was written last afterwards", async () => {
    const file = openStateFile(nested(), "order");
    expect(await file.read()).toBeUndefined();

    await file.write("first");
    await file.write("zweite Ordnung: äöü\n");

    expect(await openStateFile(nested(), "order").read()).toBe("zweite Ordnung: äöü\n");
    expect(readdirSync(nested())).toEqual(["order"]);
  });

  test("keeps the last of many texts handed over at once", async () => {
    const file = openStateFile(nested(), "order");

    await Promise.all(Array.from({ length: 50 }, (_, at) => file.write(`text ${at}`)));

    expect(await file.read()).toBe("text 49");
  });

  test("ignores what a process left that died while it wrote", async () => {
    const file = openStateFile(nested(), "order");
    await file.write("whole");
    writeFileSync(`${stored()}.new`, "winnow-state 999 00");

    expect(await file.read()).toBe("whole");
    await file.write("next");
    expect(await file.read()).toBe("next");
  });

  test.each<[string, () => void]>([
    ["cut short", () => truncateSync(stored(), 30)],
    ["emptied", () => truncateSync(stored(), 0)],
    ["changed by one bit", () => flipLastBit(stored())],
    ["another file", () => writeFileSync(stored(), '{"revision":1}')],
    ["enormous", () => truncateSync(stored(), STATE_BYTES_MAX + 1000)],
  ])("is refused when it was %s, and can be written anew", async (_, damage) => {
    const file = openStateFile(nested(), "order");
    await file.write("a text of some length");

    damage();

    await expect(file.read()).rejects.toMatchObject({ code: "DATA_LOSS" });
    await file.write("anew");
    expect(await file.read()).toBe("anew");
  });

  test("says which file cannot be written, and why", async () => {
    writeFileSync(path.join(directory, "taken"), "");
    const file = openStateFile(path.join(directory, "taken"), "order");

    await expect(file.write("text")).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("Cannot write the state file") as string,
    });
    await expect(file.write("x".repeat(STATE_BYTES_MAX + 1))).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
    });
  });

  test("tells before the first text whether one can be written, and leaves nothing behind", async () => {
    writeFileSync(path.join(directory, "taken"), "");

    await expect(stateFault(path.join(directory, "taken"), "order")).resolves.toMatchObject({
      code: "UNAVAILABLE",
    });
    await expect(stateFault(nested(), "order")).resolves.toBeUndefined();
    expect(readdirSync(nested())).toEqual([]);
  });

  // Node.js tries for ever to make a directory there with those above it.
  test.skipIf(process.platform !== "linux")("a directory below /proc is an error", async () => {
    const file = openStateFile("/proc/winnow/state", "order");

    await expect(file.write("text")).rejects.toThrow(/Cannot write the state file .*ENOENT/);
  });

  // Neither root may make a directory there.
  test.skipIf(process.platform !== "linux")(
    "a directory that may not be made is told with the setting",
    async () => {
      const file = openStateFile("/sys/winnow", "order");

      await expect(file.write("text")).rejects.toThrow("; --state-dir must name a folder in which");
    },
  );

  test("a write that failed does not stand in the way of the next", async () => {
    mkdirSync(nested());
    const file = openStateFile(nested(), "order");
    mkdirSync(`${stored()}.new`);
    await expect(file.write("text")).rejects.toMatchObject({ code: "UNAVAILABLE" });

    rmSync(`${stored()}.new`, { recursive: true });
    await file.write("text");

    expect(await file.read()).toBe("text");
  });

  test("can be read by its owner alone", async () => {
    const file = openStateFile(nested(), "order");
    await file.write("text");
    expect(readFileSync(stored(), "utf8")).toMatch(/^winnow-state 4 [0-9a-f]{8}\ntext$/);
    chmodSync(stored(), 0o400);

    await file.write("again");

    expect(await file.read()).toBe("again");
  });

  test.each(["", "../order", "a/b", ".hidden", "a\0b"])("has no name %j", (name) => {
    expect(() => openStateFile(directory, name)).toThrow(/Cannot keep state/);
  });

  test("is named after its process, whatever that is called", () => {
    const names = [
      "w0",
      "10.0.0.1:7600",
      "10_0_0_1_7600",
      "[::1]:7600",
      "../../w0",
      "é".repeat(300),
    ];

    const files = names.map((name) => stateFileName("order", name));

    expect(files[0]).toBe("order-w0");
    expect(new Set(files).size).toBe(names.length);
    for (const file of files) expect(() => openStateFile(directory, file)).not.toThrow();
  });
});

function flipLastBit(file: string): void {
  const bytes = readFileSync(file);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(file, bytes);
}
