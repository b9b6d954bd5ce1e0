// Dense parts that ONNX Runtime has loaded before, and the shapes that it found: a worker need not start a process and
// load them once more to know that they can be loaded, which is an eighth of the processor time of a small worker's start.
//
//   cache/<kind>/dense-parts/<checksum of runtime and part>.json      beside the bytecode (bundle-loader.cjs)
//
// What is kept holds for the very same bytes, the same version of ONNX Runtime, and a processor with the same features:
// the kind. Refusals are not kept. As with bytecode, who may write the folder may write the code beside it, and whatever
// is amiss with a file, the part is checked as if the file were not there.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { getEnvironmentData } from "node:worker_threads";

import type { DenseShapes } from "@winnow/accelerator";
import { makeDirectorySync, removeRemains } from "@winnow/core";

/** The shapes of parts that were loaded before. No method throws. */
export interface KeptShapes {
  /** `undefined` for a part that must be checked. */
  get(onnx: Uint8Array): DenseShapes | undefined;
  keep(onnx: Uint8Array, shapes: DenseShapes): void;
}

/** Where nothing is kept. */
export const noShapes: KeptShapes = { get: () => undefined, keep: () => undefined };

/** Beyond so many parts, all are checked anew and what is kept begins again. */
const PARTS_MAX = 256;
/** Whatever the process' mask is, as bytecode. */
const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;

/** The folder of this process' kind, as the loader of the bundle tells it; modules that are run one by one have none. */
export function keptFolder(): string | undefined {
  const folder = getEnvironmentData("winnow.kept-folder");
  return typeof folder === "string" ? folder : undefined;
}

/** Keeps shapes below `folder`, the one of this process' kind, of what this version of ONNX Runtime loads. */
export function shapesKeptIn(folder: string, runtime: string): KeptShapes {
  const parts = path.join(folder, "dense-parts");
  const fileOf = (onnx: Uint8Array): string => {
    const sum = createHash("sha256").update(`${runtime}\n`).update(onnx).digest("hex");
    return path.join(parts, `${sum}.json`);
  };
  return {
    get: (onnx) => {
      try {
        return shapesIn(readFileSync(fileOf(onnx), "utf8"));
      } catch {
        return undefined;
      }
    },
    keep: (onnx, shapes) => {
      const file = fileOf(onnx);
      const draft = `${file}.draft`;
      try {
        makeDirectorySync(parts, FOLDER_MODE);
        if (readdirSync(parts).length >= PARTS_MAX) rmSync(parts, { recursive: true });
        makeDirectorySync(parts, FOLDER_MODE);
        // Processes that write one file at the same time write the same bytes.
        writeFileSync(draft, textOf(shapes), { mode: FILE_MODE });
        renameSync(draft, file);
      } catch {
        // A folder that is read-only, a full disk, or another process that was faster.
        removeRemains(draft);
      }
    },
  };
}

function textOf(shapes: DenseShapes): string {
  const json = JSON.stringify(shapes);
  return `${sumOf(json)}\n${json}`;
}

function shapesIn(text: string): DenseShapes | undefined {
  const end = text.indexOf("\n");
  const json = text.slice(end + 1);
  return text.slice(0, end) === sumOf(json) ? (JSON.parse(json) as DenseShapes) : undefined;
}

const sumOf = (json: string): string => createHash("sha256").update(json).digest("hex");
