// Processor time of a worker process by thread, from /proc: its event loop, its compute thread, the
// scan (the pool thread that runs it and the helpers of its team), and the rest. Node does not name
// its threads; but a thread of JavaScript waits for events and any other one for a lock, so when the
// process is idle the system call each one waits in tells them apart.

import { existsSync, readFileSync, readdirSync } from "node:fs";

/** Clock ticks per second of /proc, on every Linux Node runs on. */
const TICKS_PER_SECOND = 100;
/** epoll_wait and epoll_pwait of x86-64 (and of arm64). */
const EVENT_WAITS = new Set(["232", "281", "22"]);

function readThreads(pid) {
  const folder = `/proc/${pid}/task`;
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((id) => {
    const fields = readFileSync(`${folder}/${id}/stat`, "utf8").split(") ").at(-1).split(" ");
    return {
      id: Number(id),
      seconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    };
  });
}

function isEventLoop(pid, id) {
  try {
    return EVENT_WAITS.has(readFileSync(`/proc/${pid}/task/${id}/syscall`, "utf8").split(" ")[0]);
  } catch {
    return false;
  }
}

/** Seconds of each thread so far. */
export function threadSeconds(pid) {
  return new Map(readThreads(pid).map(({ id, seconds }) => [id, seconds]));
}

/** What each kind of thread used between two readings, in processors; to be asked of an idle process. */
export function threadUse(pid, { before, after, elapsedSeconds }) {
  const used = [...after].map(([id, seconds]) => ({
    id,
    processors: (seconds - (before.get(id) ?? 0)) / elapsedSeconds,
  }));
  const loops = used.filter(({ id }) => id !== pid && isEventLoop(pid, id));
  const compute = loops.reduce((most, loop) => (loop.processors > most.processors ? loop : most), {
    id: 0,
    processors: 0,
  });
  const loopIds = new Set(loops.map(({ id }) => id));
  const sumOf = (list) => list.reduce((sum, { processors }) => sum + processors, 0);
  return {
    eventLoop: sumOf(used.filter(({ id }) => id === pid)),
    compute: compute.processors,
    others: sumOf(used.filter(({ id }) => id !== pid && !loopIds.has(id))),
  };
}
