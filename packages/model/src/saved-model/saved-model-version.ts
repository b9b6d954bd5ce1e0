// A TensorFlow SavedModel as a model version: saved_model.pb becomes the program, the tensor bundle
// under variables/ the tables. All signatures are read. The version is refused if one of them
// cannot be served, because otherwise a client would be the first to find out.

import { WinnowError } from "@winnow/core";
import type {
  ModelProgram,
  SignatureProgram,
  Step,
  UncutTable,
  Vocabulary,
  WarmUpRequest,
} from "@winnow/core";
import { contentFingerprint } from "../content-fingerprint.ts";
import type {
  BoundFile,
  ModelVersion,
  MoreRows,
  MoreRowsShape,
  PartitionReader,
  TableReading,
} from "../model-version.ts";
import { noSignature } from "./graph/definition/callable-functions.ts";
import { openGraphSources } from "./graph/sources/graph-sources.ts";
import type { GraphSources } from "./graph/sources/graph-sources.ts";
import { INITIALISER_SIGNATURE, readServingGraph } from "./graph/definition/meta-graph.ts";
import type { SignatureDefinition } from "./graph/definition/meta-graph.ts";
import { lowerSignature } from "./graph/signature-graph.ts";
import { initialiserProgram, writeProgram } from "./graph/signature-program.ts";
import type { SharedParts } from "./graph/signature-program.ts";
import { TableRegistry } from "./graph/tables/table-registry.ts";
import { checkVocabularies } from "./graph/vocabulary-reach.ts";
import type { StoredTable } from "./partitions/stored-table.ts";
import { GRAPH_FILE } from "./version-directory.ts";
import { VersionFiles } from "./version-files.ts";
import type { ReadingOptions } from "./version-files.ts";
import { readWarmUp } from "./warm-up.ts";

/**
 * Opens a SavedModel version directory and makes its program; reads no table.
 * @throws WinnowError NOT_FOUND, DATA_LOSS, INVALID_ARGUMENT, UNIMPLEMENTED naming file and node
 */
export function openSavedModel(directory: string, options?: ReadingOptions): ModelVersion {
  const files = new VersionFiles(directory, options);
  try {
    return new SavedModelVersion(files, readProgram(files));
  } catch (error) {
    files.close();
    throw error;
  }
}

interface ReadProgram {
  readonly program: ModelProgram;
  readonly tables: readonly StoredTable[];
}

function readProgram(files: VersionFiles): ReadProgram {
  const meta = readServingGraph(files.graphBytes, GRAPH_FILE);
  if (meta.signatures.every(isInitialiser)) throw noSignature(meta, GRAPH_FILE);
  const sources = within(`Cannot read ${GRAPH_FILE}`, () => openGraphSources(files, meta));
  const registry = new TableRegistry(files);
  const graphs = meta.signatures.map((signature) =>
    isInitialiser(signature)
      ? undefined
      : inSignature(signature, () => lowerSignature(signature, sources, registry)),
  );
  const vocabularies: Vocabulary[] = [];
  const denseModels: Uint8Array[] = [];
  const shared: SharedParts = { denseModels, vocabularies };
  const signatures = meta.signatures.map((signature, index): SignatureProgram => {
    const graph = graphs[index];
    return graph === undefined
      ? initialiserProgram(signature)
      : inSignature(signature, () => writeProgram(graph, sources, shared));
  });
  checkVocabularies(
    graphs.filter((graph) => graph !== undefined),
    {
      tables: registry.tables,
      contents: sources.tables,
      isVouchedFor: (file) => files.isVouchedFor(file),
    },
  );
  const uncutTables = distinctTables(graphs.flatMap((graph) => graph?.uncutTables ?? []));
  const asked = askedTables(signatures, registry.tables);
  const parts = { signatures: asked.signatures, ...shared, uncutTables };
  return { program: programOf(sources, asked.tables, parts), tables: asked.tables };
}

/** The tables that some step asks, which may be fewer than were found: a table of flags becomes a column of the items. */
function askedTables(
  signatures: readonly SignatureProgram[],
  tables: readonly StoredTable[],
): { readonly signatures: readonly SignatureProgram[]; readonly tables: readonly StoredTable[] } {
  const steps = signatures.flatMap((signature) => signature.steps);
  const asked = new Set(steps.map((step) => ("table" in step ? step.table : -1)));
  const numbers = Array.from(tables.keys()).filter((number) => asked.has(number));
  if (numbers.length === tables.length) return { signatures, tables };
  const withNumber = (step: Step): Step =>
    "table" in step ? { ...step, table: numbers.indexOf(step.table) } : step;
  return {
    signatures: signatures.map((signature) =>
      Object.assign({}, signature, { steps: signature.steps.map(withNumber) }),
    ),
    tables: numbers.map((number) => tables[number]!),
  };
}

function programOf(
  { files }: GraphSources,
  tables: readonly StoredTable[],
  {
    uncutTables = [],
    ...parts
  }: Pick<ModelProgram, "signatures" | "vocabularies" | "denseModels" | "uncutTables">,
): ModelProgram {
  files.releaseGraph();
  const specs = tables.map(({ spec }) => spec);
  const uncut = uncutTables.length > 0 && { uncutTables };
  const print = contentFingerprint(files.fingerprint, tables);
  return { fingerprint: print, tables: specs, ...parts, ...uncut };
}

/** Each tensor once, with the first ranking that keeps it from being cut. */
function distinctTables(tables: readonly UncutTable[]): UncutTable[] {
  const known = new Map<string, UncutTable>();
  for (const table of tables) if (!known.has(table.tensor)) known.set(table.tensor, table);
  return [...known.values()];
}

/**
 * Whether a signature only initialises the model: run once when loading, its outputs no tensors.
 */
function isInitialiser({ name, outputs }: SignatureDefinition): boolean {
  return name === INITIALISER_SIGNATURE || outputs.every(({ type }) => type === 0);
}

function inSignature<Result>({ name }: SignatureDefinition, run: () => Result): Result {
  return within(`Cannot serve signature "${name}" of ${GRAPH_FILE}`, run);
}

/** Prefixes a refusal with what was being attempted. */
function within<Result>(what: string, run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    throw new WinnowError(error.code, `${what}: ${error.message}`, { cause: error });
  }
}

class SavedModelVersion implements ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  readonly warmUp: readonly WarmUpRequest[];
  readonly #files: VersionFiles;
  readonly #tables: readonly StoredTable[];

  constructor(files: VersionFiles, { program, tables }: ReadProgram) {
    this.directory = files.directory;
    this.program = program;
    this.warmUp = readWarmUp(files.stored, program.signatures);
    this.#files = files;
    this.#tables = tables;
  }

  get files(): readonly BoundFile[] {
    return this.#files.boundFiles;
  }

  get bytesRead(): number {
    return this.#files.bytesRead;
  }

  partitionBytes(table: number, partition: number): number {
    return this.#files.partitionBytes(this.#tableAt(table), partition);
  }

  openPartition(table: number, partition: number): PartitionReader {
    return this.#files.openPartition(this.#tableAt(table), partition);
  }

  moreRowsShape(table: number): MoreRowsShape {
    return this.#files.moreRowsShape(this.#tableAt(table));
  }

  moreRows(table: number, more: MoreRows): TableReading {
    return this.#files.moreRows(this.#tableAt(table), more);
  }

  close(): void {
    this.#files.close();
  }

  #tableAt(table: number): StoredTable {
    const stored = this.#tables[table];
    if (stored !== undefined) return stored;
    throw new RangeError(`table ${table} of ${this.#tables.length}`);
  }
}
