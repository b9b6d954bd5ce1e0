// Resources of processes, from /proc: memory, descriptors, threads, processor time. They are read once a
// second during a run, and compared at rest before and after: what a fault leaves behind is a leak.

import { readFileSync, readdirSync } from "node:fs";
import { ROUTERS } from "./chaos-cluster.ts";

/** The resources of a process at one moment. */
export interface ProcessHolding {
  readonly rssBytes: number;
  readonly descriptors: number;
  readonly threads: number;
  readonly cpuSeconds: number;
}

/** The largest values of a process, and its processor time over all its lives. */
export interface PeakHolding extends ProcessHolding {
  readonly name: string;
}

const TICKS_PER_SECOND = 100;

/** `undefined` where the process is gone, or there is no /proc. */
function holdingOf(pid: number): ProcessHolding | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return {
      rssBytes: 1024 * Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0),
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      threads: Number(/Threads:\s+(\d+)/.exec(status)?.[1] ?? 0),
      cpuSeconds: (Number(stat[11]) + Number(stat[12])) / TICKS_PER_SECOND,
    };
  } catch {
    return undefined;
  }
}

/** Processes to look at, by name. */
export type WatchedProcesses = () => ReadonlyMap<string, number>;

/** Looks at processes once a second until it is closed. */
export class ResourceWatch {
  readonly #processes: WatchedProcesses;
  readonly #peaks = new Map<string, PeakHolding>();
  /** Processor time at the last look, by process id. */
  readonly #computed = new Map<number, number>();
  readonly #timer: NodeJS.Timeout;

  constructor(processes: WatchedProcesses, intervalMs = 1000) {
    this.#processes = processes;
    this.#look();
    this.#timer = setInterval(() => this.#look(), intervalMs);
  }

  get peaks(): readonly PeakHolding[] {
    return [...this.#peaks.values()];
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    for (const [name, pid] of this.#processes()) {
      const now = holdingOf(pid);
      if (now === undefined) continue;
      const peak = this.#peaks.get(name);
      // A new process has used its whole processor time; others the difference to the last reading.
      const before = this.#computed.get(pid) ?? (peak === undefined ? now.cpuSeconds : 0);
      this.#computed.set(pid, now.cpuSeconds);
      const cpuSeconds = now.cpuSeconds - before;
      this.#peaks.set(name, {
        name,
        ...higher(peak ?? { ...now, cpuSeconds: 0 }, now, cpuSeconds),
      });
    }
  }
}

function higher(peak: ProcessHolding, now: ProcessHolding, cpuSeconds: number): ProcessHolding {
  return {
    rssBytes: Math.max(now.rssBytes, peak.rssBytes),
    descriptors: Math.max(now.descriptors, peak.descriptors),
    threads: Math.max(now.threads, peak.threads),
    cpuSeconds: peak.cpuSeconds + cpuSeconds,
  };
}

/** How much more a resting process may hold than when it first rested. */
const RESTING_GROWTH = { rssBytes: 384 * 2 ** 20, descriptors: 48, threads: 12 } as const;
/**
 * The same for routers: what bodies held (512 MiB at most) and half of it again for reading them. Once
 * they are let go of, V8 and the C library keep the pages for the next ones, on a calm router for good.
 * That no body is held any more is seen in `winnow_held_bytes` (`heldFindings`).
 */
const RESTING_ROUTER_RSS_GROWTH = 768 * 2 ** 20;
/** How long garbage collectors and closing connections get, and how often to look. */
const RESTING_MS = 15_000;
const RESTING_LOOK_MS = 500;

/** What processes hold at rest, scenario after scenario, for as long as each lives. */
export class LeakWatch {
  readonly #processes: WatchedProcesses;
  /** What each process held when it was first seen at rest, by process id. */
  readonly #first = new Map<number, ProcessHolding>();

  constructor(processes: WatchedProcesses) {
    this.#processes = processes;
  }

  /** What processes still hold above their bounds after some time at rest; each is reported once. */
  async findings(): Promise<string[]> {
    const endMs = Date.now() + RESTING_MS;
    let grown = this.#grown();
    while (grown.length > 0 && Date.now() < endMs) {
      await new Promise((resolve) => {
        setTimeout(resolve, RESTING_LOOK_MS);
      });
      grown = this.#grown();
    }
    for (const { pid, now } of grown) this.#first.set(pid, now);
    return grown.map(({ text }) => text);
  }

  #grown(): { readonly pid: number; readonly now: ProcessHolding; readonly text: string }[] {
    return Array.from(this.#processes()).flatMap(([name, pid]) => {
      const now = holdingOf(pid);
      if (now === undefined) return [];
      const first = this.#first.get(pid) ?? now;
      this.#first.set(pid, first);
      const kinds = Object.keys(RESTING_GROWTH) as (keyof typeof RESTING_GROWTH)[];
      const bounds = ROUTERS.includes(name)
        ? { ...RESTING_GROWTH, rssBytes: RESTING_ROUTER_RSS_GROWTH }
        : RESTING_GROWTH;
      const grown = kinds.filter((kind) => now[kind] > first[kind] + bounds[kind]);
      if (grown.length === 0) return [];
      const changes = grown.map((kind) => `${kind} ${first[kind]} → ${now[kind]}`);
      return [{ pid, now, text: `${name} at rest: ${changes.join(", ")}` }];
    });
  }
}
