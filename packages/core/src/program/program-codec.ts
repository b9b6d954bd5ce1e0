// A program as bytes, for the way from a worker to a router: u32 header length, JSON header, then
// aligned blobs (typed arrays, strings, ONNX models) that the header points into.

import { WinnowError } from "../errors.ts";
import type { KeyedPartition } from "../keyed-partition.ts";
import type { ModelProgram } from "./program.ts";

/** A small keyed table that travels with the program: its one partition holds every row. */
export interface InlineTable {
  readonly partition: KeyedPartition;
  /** `[rows, dim]`, local row order. */
  readonly values: Float32Array;
}

/** A program with its small tables, by position in `ModelProgram.tables`. */
export interface ProgramPackage {
  readonly program: ModelProgram;
  readonly inlineTables: ReadonlyMap<number, InlineTable>;
}

/** Packs a program with its inline tables. */
export function encodeProgramPackage(contents: ProgramPackage): Uint8Array {
  throw new WinnowError("UNIMPLEMENTED", String(contents.inlineTables.size));
}

/** Unpacks and checks; arrays are copies. @throws WinnowError DATA_LOSS */
export function decodeProgramPackage(bytes: Uint8Array): ProgramPackage {
  throw new WinnowError("UNIMPLEMENTED", String(bytes.length));
}

/** Packs a program alone. */
export function encodeProgram(program: ModelProgram): Uint8Array {
  return encodeProgramPackage({ program, inlineTables: new Map() });
}

/** Unpacks and checks a program. @throws WinnowError DATA_LOSS */
export function decodeProgram(bytes: Uint8Array): ModelProgram {
  return decodeProgramPackage(bytes).program;
}
