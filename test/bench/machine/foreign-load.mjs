// How much of the processors others used while something was measured. On a shared machine a figure
// counts only if that was little; on systems without /proc nothing is known and everything counts.

import { existsSync, readFileSync } from "node:fs";
import process from "node:process";

/** Clock ticks per second of /proc, on every Linux Node runs on. */
const TICKS_PER_SECOND = 100;

function busyTicks() {
  const [line] = readFileSync("/proc/stat", "utf8").split("\n");
  const [, user, nice, system, , , irq, softIrq, steal] = line.split(/\s+/).map(Number);
  return user + nice + system + irq + softIrq + steal;
}

function ticksOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

/** Starts watching; the function it gives tells how many processors others kept busy since. */
export function watchForeignLoad(pids) {
  if (!existsSync("/proc/stat")) return () => 0;
  const all = [process.pid, ...pids];
  const own = () => all.reduce((sum, pid) => sum + ticksOf(pid), 0);
  const start = { busy: busyTicks(), own: own(), ms: performance.now() };
  return () => {
    const seconds = (performance.now() - start.ms) / 1000;
    const foreign = busyTicks() - start.busy - (own() - start.own);
    return Math.max(0, foreign / TICKS_PER_SECOND / seconds);
  };
}
