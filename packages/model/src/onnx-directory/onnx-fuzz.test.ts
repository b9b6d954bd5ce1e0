// Damage to every file of the recorded PyTorch exports. Whatever is in the files, opening and reading them
// ends, with a program or with a WinnowError, and memory does not follow sizes that a file claims.

import { cpSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { WinnowError } from "@winnow/core";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { openModelVersion } from "../model-directory.ts";
import { FuzzSource, mutatedMessage } from "../saved-model/fixtures/model-fuzz.ts";

const EXPORTS = path.resolve(import.meta.dirname, "../../../../test/data/torch");
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const INPUTS = Number(process.env["FUZZ_INPUTS"] ?? 1500);
/** When a run is taken to hang: an input takes some 2 ms on an idle machine. */
const TIMEOUT_MS = 120_000 + INPUTS * 20;
const NUMBERS = ["0", "-1", "1", "7", "1e308", "9007199254740993", "18446744073709551616", "null"];

const root = temporaryDirectory();
cpSync(EXPORTS, root, { recursive: true });
const specimens = readdirSync(root).flatMap((name) => {
  const directory = path.join(root, name, "1");
  return readdirSync(directory).map((file) => {
    const at = path.join(directory, file);
    return { directory, at, content: new Uint8Array(readFileSync(at)) };
  });
});

/** Bytes changed, cut off, repeated; numbers in texts changed; fields of messages changed. */
function damaged(source: FuzzSource, content: Uint8Array, isMessage: boolean): Uint8Array {
  if (isMessage && source.chance(0.7)) return mutatedMessage(source, content);
  if (source.chance(0.2)) return content.slice(0, source.below(content.length));
  if (source.chance(0.1)) return Buffer.concat([content, content]);
  if (source.chance(0.4)) {
    const text = Buffer.from(content).toString("latin1");
    const numbers = [...text.slice(0, 2000).matchAll(/\d+/g)];
    if (numbers.length === 0) return content;
    const { 0: digits, index } = source.pick(numbers);
    const changed = text.slice(0, index) + source.pick(NUMBERS) + text.slice(index + digits.length);
    return Buffer.from(changed, "latin1");
  }
  const changed = Uint8Array.from(content);
  for (let count = 1 + source.below(4); count > 0; count -= 1) {
    changed[source.below(Math.min(changed.length, 400))] = source.below(256);
  }
  return changed;
}

function read(directory: string): void {
  const version = openModelVersion(directory);
  try {
    for (const [table, { partitions }] of version.program.tables.entries()) {
      for (let partition = 0; partition < partitions; partition += 1) {
        version.partitionBytes(table, partition);
        const reader = version.openPartition(table, partition);
        for (const _ of reader.chunks());
        reader.checksumShares();
      }
    }
  } finally {
    version.close();
  }
}

test(
  `${INPUTS} damaged files end in a program or an error of Winnow's (seed ${SEED})`,
  { timeout: TIMEOUT_MS },
  () => {
    let refused = 0;
    for (let input = 0; input < INPUTS; input += 1) {
      const source = new FuzzSource(SEED, input);
      const { directory, at, content } = source.pick(specimens);
      writeFileSync(at, damaged(source, content, at.endsWith(".onnx")));
      try {
        read(directory);
      } catch (error) {
        if (!(error instanceof WinnowError))
          throw new Error(`input ${input}, ${at}`, { cause: error });
        refused += 1;
      } finally {
        writeFileSync(at, content);
      }
    }

    expect(refused).toBeGreaterThan(INPUTS / 4);
    expect(refused).toBeLessThan(INPUTS);
  },
);
