// How much memory the machine, and the limit of this process's container, leave. Whoever takes more is ended by the
// kernel, with all that it serves, so work that needs much asks first and is refused with figures instead.
//
// The files are those of Linux. In a container the own control group is the root of the mounted tree, otherwise
// /proc/self/cgroup says where it is; groups above it have limits too.

import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import path from "node:path";
import { WinnowError } from "../errors/errors.ts";

/** Reads a file; `undefined` if that fails. */
type ReadText = (file: string) => string | undefined;

interface GroupFiles {
  readonly root: string;
  readonly limit: string;
  readonly used: string;
  /** Names in `memory.stat` of the bytes of cached files, which the kernel gives up when memory is short. */
  readonly cached: readonly string[];
}

const VERSION_2: GroupFiles = {
  root: "/sys/fs/cgroup",
  limit: "memory.max",
  used: "memory.current",
  cached: ["inactive_file", "active_file"],
};
const VERSION_1: GroupFiles = {
  root: "/sys/fs/cgroup/memory",
  limit: "memory.limit_in_bytes",
  used: "memory.usage_in_bytes",
  cached: ["total_inactive_file", "total_active_file"],
};

/**
 * Bytes that this process and others beside it may still take; `undefined` where the system does not tell.
 *
 * @internal tests call it
 */
export function freeMemoryBytes(read: ReadText = readText): number | undefined {
  const [, kibibytes] = /^MemAvailable: +(\d+) kB$/m.exec(read("/proc/meminfo") ?? "") ?? [];
  const machine = kibibytes === undefined ? [] : [Number(kibibytes) * 1024];
  const groups = groupsIn(read("/proc/self/cgroup") ?? "");
  const free = groups.flatMap(({ files, directory }) => freeIn(files, directory, read) ?? []);
  return [...machine, ...free].length === 0
    ? undefined
    : Math.max(0, Math.min(...machine, ...free));
}

/** Where `assertFreeMemory` looks. @internal tests replace it */
export const systemMemory = { freeBytes: (): number | undefined => freeMemoryBytes() };

/** Left to requests, and to what is in no estimate. */
const RESERVE_BYTES = 2 ** 25;

/**
 * Refuses work for which there is not the memory. `work` begins the message, and `bytes` is the least that it
 * takes. @throws WinnowError RESOURCE_EXHAUSTED
 */
export function assertFreeMemory(work: string, bytes: number): void {
  const freeBytes = systemMemory.freeBytes();
  if (freeBytes === undefined || bytes + RESERVE_BYTES <= freeBytes) return;
  const free = `${freeBytes} are left on this machine or in its container`;
  const kept = `of which ${RESERVE_BYTES} are kept for requests`;
  const text = `${work} takes ${bytes} bytes of memory: ${free}, ${kept}`;
  throw new WinnowError("RESOURCE_EXHAUSTED", text);
}

/** The groups of this process, and those above each. */
function groupsIn(text: string): { readonly files: GroupFiles; readonly directory: string }[] {
  return text.split("\n").flatMap((line) => {
    const [, controllers = "", own = ""] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    const isFirst = controllers.split(",").includes("memory");
    if (own === "" || (controllers !== "" && !isFirst)) return [];
    const files = isFirst ? VERSION_1 : VERSION_2;
    return groupsUpFrom(own).map((each) => ({ files, directory: path.join(files.root, each) }));
  });
}

function groupsUpFrom(directory: string): string[] {
  const parent = path.dirname(directory);
  return parent === directory ? [directory] : [directory, ...groupsUpFrom(parent)];
}

function freeIn(files: GroupFiles, directory: string, read: ReadText): number | undefined {
  const numberIn = (name: string): number => Number(read(path.join(directory, name)) ?? Number.NaN);
  // "max", and a number beyond any memory in the first version, mean that there is no limit.
  const limit = numberIn(files.limit);
  const used = numberIn(files.used);
  if (!(limit < totalmem()) || Number.isNaN(used)) return undefined;
  const figures = new Map(
    (read(path.join(directory, "memory.stat")) ?? "")
      .split("\n")
      .map((line) => line.split(" "))
      .map(([name = "", figure]) => [name, Number(figure)]),
  );
  const cached = files.cached.reduce((sum, name) => sum + (figures.get(name) ?? 0), 0);
  return limit - used + cached;
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
