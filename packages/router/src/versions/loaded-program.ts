// A version's program, ready to run: decoded, its vocabularies indexed, its dense models loaded, its small
// tables indexed. All of this happens before the version may be asked, never during a request.

import type {
  Fingerprint,
  InlineTable,
  ModelProgram,
  VocabularyIndex,
  WarmUpRequest,
} from "@winnow/core";
import { decodeProgramPackage, indexVocabularies, WinnowError } from "@winnow/core";
import type { DenseEngine, DenseModel, DenseOwner } from "@winnow/accelerator";
import type { LocalTable } from "./local-table.ts";
import { createLocalTable } from "./local-table.ts";

/** Everything that a router needs to answer for one version, except the workers. */
export interface LoadedProgram {
  /** Without the bytes of its dense models. */
  readonly program: ModelProgram;
  readonly vocabularies: readonly VocabularyIndex[];
  /** By the positions that steps name. */
  readonly denseModels: readonly DenseModel[];
  /** By position in `program.tables`; all other tables are on workers. */
  readonly localTables: ReadonlyMap<number, LocalTable>;
  /** Requests to replay before clients may ask. */
  readonly warmUp: readonly WarmUpRequest[];
}

/** A program that is to be loaded, as bytes. */
export interface ProgramBytes {
  readonly fingerprint: Fingerprint;
  /** As `encodeProgramPackage` makes them. */
  readonly bytes: Uint8Array;
  /** A version with this content. */
  readonly owner: DenseOwner;
}

/** The dense engine refuses a part of the program, and would refuse it at every further attempt. */
export class UnrunnableProgram extends Error {
  readonly reason: WinnowError;

  constructor(reason: WinnowError) {
    super(reason.message);
    this.reason = reason;
  }
}

/**
 * Unpacks and loads. @throws UnrunnableProgram; WinnowError DATA_LOSS for another program, or the engine's
 * error if a later attempt may succeed
 */
export async function loadProgram(
  engine: DenseEngine,
  { fingerprint, bytes, owner }: ProgramBytes,
): Promise<LoadedProgram> {
  const { program, inlineTables, warmUp = [] } = decodeProgramPackage(bytes);
  if (program.fingerprint !== fingerprint) {
    throw new WinnowError(
      "DATA_LOSS",
      `Asked for program ${fingerprint}, got ${program.fingerprint}`,
    );
  }
  const vocabularies = indexVocabularies(program.vocabularies);
  const localTables = new Map(
    Array.from(inlineTables, ([table, inline]) => [table, localTable(program, table, inline)]),
  );
  const denseModels: DenseModel[] = [];
  try {
    for (const model of program.denseModels) denseModels.push(await engine.load(model, owner));
  } catch (error) {
    await releaseAll(denseModels);
    const isRefused = error instanceof WinnowError && error.code === "INVALID_ARGUMENT";
    throw isRefused ? new UnrunnableProgram(error) : error;
  }
  // The engine keeps the bytes of its models, and nobody else needs them.
  return {
    program: { ...program, denseModels: [] },
    vocabularies,
    denseModels,
    localTables,
    warmUp,
  };
}

/** Frees what the dense engine holds for a program. */
export async function unloadProgram(loaded: LoadedProgram): Promise<void> {
  await releaseAll(loaded.denseModels);
}

async function releaseAll(models: readonly DenseModel[]): Promise<void> {
  await Promise.all(models.map((model) => model.release()));
}

function localTable(program: ModelProgram, table: number, inline: InlineTable): LocalTable {
  const spec = program.tables[table];
  if (spec?.kind !== "keyed") {
    throw new WinnowError("DATA_LOSS", `Inline table ${table} is no keyed table of the program`);
  }
  return createLocalTable(spec, inline);
}
