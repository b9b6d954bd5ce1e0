// What the kernel's files say about the memory of a container, in each form that they have. Real limits need rights
// that a test has not.

import { afterEach, expect, test, vi } from "vitest";
import { assertFreeMemory, freeMemoryBytes, systemMemory } from "./free-memory.ts";

const MIB = 2 ** 20;

afterEach(() => vi.restoreAllMocks());

function reading(files: Readonly<Record<string, string>>): number | undefined {
  return freeMemoryBytes((file) => files[file]);
}

const stat = (prefix: string): string =>
  `anon 1\n${prefix}inactive_file ${30 * MIB}\n${prefix}active_file ${10 * MIB}\nshmem 5\n`;

test("a container of version 2 has what its limit leaves, and what files occupy", () => {
  const free = reading({
    "/proc/self/cgroup": "0::/\n",
    "/sys/fs/cgroup/memory.max": `${512 * MIB}\n`,
    "/sys/fs/cgroup/memory.current": `${400 * MIB}\n`,
    "/sys/fs/cgroup/memory.stat": stat(""),
  });

  expect(free).toBe((512 - 400 + 40) * MIB);
});

test("a container of version 1 whose group has another name outside has that of its root", () => {
  const free = reading({
    "/proc/self/cgroup": "9:name=systemd:/docker/a1\n4:cpu,memory:/docker/a1\n0::/\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": `${512 * MIB}\n`,
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": `${500 * MIB}\n`,
    "/sys/fs/cgroup/memory/memory.stat": stat("total_"),
  });

  expect(free).toBe((512 - 500 + 40) * MIB);
});

test("of the groups above each other the one that leaves least counts, and it never leaves less than nothing", () => {
  const files = {
    "/proc/self/cgroup": "0::/pod/winnow\n",
    "/sys/fs/cgroup/pod/winnow/memory.max": "max\n",
    "/sys/fs/cgroup/pod/winnow/memory.current": `${10 * MIB}\n`,
    "/sys/fs/cgroup/pod/memory.max": `${100 * MIB}\n`,
    "/sys/fs/cgroup/pod/memory.current": `${90 * MIB}\n`,
    "/sys/fs/cgroup/memory.max": `${200 * MIB}\n`,
    "/sys/fs/cgroup/memory.current": `${150 * MIB}\n`,
  };

  expect(reading(files)).toBe(10 * MIB);
  expect(reading({ ...files, "/sys/fs/cgroup/pod/memory.current": `${101 * MIB}\n` })).toBe(0);
});

test("a machine without groups has what its kernel calls available", () => {
  const text = "MemTotal:       16000000 kB\nMemAvailable:    2048 kB\nCached: 7 kB\n";

  expect(reading({ "/proc/meminfo": text })).toBe(2 * MIB);
});

test.each<[string, Readonly<Record<string, string>>]>([
  ["no groups at all", {}],
  [
    "no limit",
    {
      "/proc/self/cgroup": "4:memory:/\n0::/\n",
      "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
      "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
    },
  ],
])("a machine with %s says nothing", (_, files) => {
  expect(reading(files)).toBeUndefined();
});

test("work that leaves nothing for requests is refused with the figures", () => {
  const free = vi.spyOn(systemMemory, "freeBytes");
  const work = (freeBytes?: number) => () => {
    free.mockReturnValue(freeBytes);
    assertFreeMemory("A load", 10 * MIB);
  };

  expect(work()).not.toThrow();
  expect(work(42 * MIB)).not.toThrow();
  expect(work(42 * MIB - 1)).toThrow(
    "A load takes 10485760 bytes of memory: 44040191 are left on this machine or in its container",
  );
});
