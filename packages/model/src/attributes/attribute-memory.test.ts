// A file of attributes takes more memory than its size while it is read. The memory of the process is faked: what a
// test machine has must not matter.

import { afterEach, expect, test, vi } from "vitest";
import { systemMemory } from "@winnow/core";
import type { StoredDirectory } from "../storage/stored-directory.ts";
import { AttributeFile } from "./attribute-file.ts";

afterEach(() => vi.restoreAllMocks());

function directoryOf(size: number) {
  const close = vi.fn();
  const readBytes = vi.fn(() => {
    throw new Error("read");
  });
  const open = () => ({ size, close, readBytes, read: readBytes });
  return { close, directory: { open } as unknown as StoredDirectory };
}

test("a large file is weighed against the free memory before it is read", () => {
  vi.spyOn(systemMemory, "freeBytes").mockReturnValue(2 ** 28);
  const { directory, close } = directoryOf(2 ** 27);

  expect(() => new AttributeFile(directory, "assets.extra/items.jsonl", 1)).toThrow(
    `Reading assets.extra/items.jsonl takes ${2 ** 28} bytes of memory`,
  );
  expect(close).toHaveBeenCalledOnce();
});

test("a file of a few MiB is read without asking", () => {
  const free = vi.spyOn(systemMemory, "freeBytes").mockReturnValue(1);
  const { directory } = directoryOf(2 ** 23);

  expect(() => new AttributeFile(directory, "assets.extra/items.jsonl", 1)).toThrow("read");
  expect(free).not.toHaveBeenCalled();
});
