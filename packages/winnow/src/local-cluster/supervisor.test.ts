// How programs are kept running: one that the system cannot start for a while, and one that is killed.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { silentLogger } from "@winnow/core";
import { expect, onTestFinished, test, vi } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { Supervisor } from "./supervisor.ts";

test("a program that the system refuses to start again is tried until it is started", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "winnow-supervisor-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const script = path.join(folder, "short.mjs");
  writeFileSync(script, `process.send("winnow:listening"); process.disconnect();`);
  const clock = new ManualClock();
  const log = { ...silentLogger, warn: vi.fn(), info: vi.fn() };
  const supervisor = new Supervisor({ clock, log });
  const env: Record<string, string> = {};
  await supervisor.start({ name: "short", script, args: [], env });
  await vi.waitFor(() => expect(log.warn).toHaveBeenCalledTimes(1));

  // A variable that no process can have: as without memory for a process, the start itself throws.
  env["NAME"] = "\0";
  clock.advance(200);
  await vi.waitFor(() => expect(clock.pendingTimers).toBe(1));
  delete env["NAME"];
  clock.advance(400);

  await vi.waitFor(() =>
    expect(log.info).toHaveBeenCalledWith("process is back", { name: "short" }),
  );
  await supervisor.stop();
  clock.advance(5000);
});

test("a program that was killed has no process until it is started again", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "winnow-supervisor-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const script = path.join(folder, "long.mjs");
  writeFileSync(script, `process.send("winnow:listening"); process.on("message", () => {});`);
  const clock = new ManualClock();
  const log = { ...silentLogger, warn: vi.fn() };
  const supervisor = new Supervisor({ clock, log });
  await supervisor.start({ name: "long", script, args: [] });
  const [pid] = supervisor.processIds.values();

  process.kill(pid!, "SIGKILL");
  await vi.waitFor(() => expect(log.warn).toHaveBeenCalledTimes(1));

  expect([...supervisor.processIds]).toEqual([]);
  await supervisor.stop();
  clock.advance(5000);
});
