// `winnow inspect`: what a model directory contains and what serving it needs, read without loading a row:
// signatures, tables, partitions, and the bytes that each of N workers would hold.

import path from "node:path";
import { type DenseEngine, codeBytesOf, createDenseEngine } from "@winnow/accelerator";
import { placeTable, replicationOf } from "@winnow/cluster";
import {
  type Experiment,
  type ModelProgram,
  type SignatureProgram,
  type Step,
  type ErrorCode,
  type TableSpec,
  type TopKStep,
  WinnowError,
  depthText,
  isModelName,
  misnamedModelText,
  rowRangeOf,
  testsInRule,
  toWinnowError,
  uncutTableText,
  workerId,
  systemClock,
} from "@winnow/core";
import {
  type BoundFile,
  type ItemChanges,
  type ItemDescription,
  type ModelVersion,
} from "@winnow/model";
import { checkDenseParts } from "@winnow/worker";
import type { VersionDirectory } from "../model-source/model-source.ts";
import { VersionOpener, newestVersionsAt } from "../model-source/object-versions.ts";
import { byteText } from "../progress-line.ts";
import { experimentText, pipelineText } from "./composed-drawing.ts";
import { align } from "../text-columns.ts";

/** What to inspect, and for which cluster. */
export interface InspectCommand {
  readonly directory: string;
  readonly workers: number;
  readonly replication: number;
  readonly modelReplication?: ReadonlyMap<string, number>;
  /** Bytes of values in a partition, at most. */
  readonly partitionBytes?: number;
}

/** One table, as people and programs see it. */
interface TableReport {
  readonly name: string;
  readonly kind: string;
  readonly keys: string;
  readonly rows: number;
  readonly dim: number;
  readonly partitions: number;
  readonly bytes: number;
}

/** One model version, as people and programs see it. */
export interface ModelReport {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
  readonly fingerprint: string;
  readonly signatures: readonly {
    readonly name: string;
    readonly inputs: readonly string[];
    readonly outputs: readonly string[];
    readonly flow: string;
  }[];
  /** Arms of an experiment; its signatures are those of their models. */
  readonly experiment?: Experiment | undefined;
  readonly tables: readonly TableReport[];
  /** The files that the fingerprint covers; `isListed`: `SHA256SUMS` lists the file, and it matches. */
  readonly files: readonly BoundFile[];
  /** The description of the version's items, if there is one. */
  readonly items?: ItemDescription | undefined;
  /** What a file changes of the model's items, if there is one. */
  readonly changes?: ItemChanges | undefined;
  readonly denseBytes: number;
  /** One sentence for each item table that every router holds instead of the workers. */
  readonly warnings: readonly string[];
  readonly workers: readonly {
    readonly worker: string;
    readonly partitions: number;
    readonly bytes: number;
    /** Including a replica of each table that is not cut, which a worker holds if it has room. */
    readonly bytesWithExtras: number;
  }[];
}

/** A model version that cannot be served, and why. */
interface FailedModel extends VersionDirectory {
  readonly error: { readonly code: ErrorCode; readonly message: string };
}

/**
 * Inspects the newest version of each model in a directory or an object store. One that cannot be loaded does not hide
 * the others. @throws WinnowError where there is no model
 */
export async function inspect(command: InspectCommand): Promise<(ModelReport | FailedModel)[]> {
  const all = await newestVersionsAt(command.directory);
  // Snapshots and trash of file systems; one that is named itself is shown.
  const shown = all.filter(({ model }) => !model.startsWith("."));
  const found = shown.length === 0 ? all : shown;
  const tools = { opener: new VersionOpener(), engine: createDenseEngine() };
  try {
    const reports: (ModelReport | FailedModel)[] = [];
    for (const version of found) {
      reports.push(await inspectVersion(version, command, tools).catch(failureOf(version)));
    }
    return reports;
  } finally {
    await tools.engine.close();
    await tools.opener.close();
  }
}

const failureOf =
  ({ model, version, directory }: VersionDirectory) =>
  (error: unknown): FailedModel => {
    const { code, message } = toWinnowError(error);
    return { model, version, directory, error: { code, message } };
  };

interface Tools {
  readonly opener: VersionOpener;
  readonly engine: DenseEngine;
}

async function inspectVersion(
  found: VersionDirectory,
  command: InspectCommand,
  { opener, engine }: Tools,
): Promise<ModelReport> {
  const parent = path.dirname(path.dirname(found.directory));
  if (parent === path.resolve(command.directory) && !isModelName(found.model)) {
    throw new WinnowError("INVALID_ARGUMENT", misnamedModelText(found.model));
  }
  const version = await opener.open(found.directory, command);
  try {
    await checkDenseParts({ engine, clock: systemClock }, version.program, found.directory);
    return reportOf(version, found, command);
  } finally {
    version.close();
  }
}

function reportOf(
  version: ModelVersion,
  found: VersionDirectory,
  command: InspectCommand,
): ModelReport {
  const { program } = version;
  return {
    model: found.model,
    version: found.version,
    directory: found.directory,
    fingerprint: program.fingerprint,
    signatures: program.signatures.map((signature) => ({
      name: signature.name,
      inputs: signature.inputs.map(tensorText),
      outputs: signature.outputs.map(tensorText),
      flow: flowOf(signature, program),
    })),
    experiment: program.experiment,
    tables: program.tables.map((table, index) => tableReport(version, table, index)),
    files: version.files ?? [],
    items: version.items,
    changes: version.changes,
    denseBytes: program.denseModels.reduce((sum, model) => sum + model.byteLength, 0),
    warnings: (program.uncutTables ?? []).map(uncutTableText),
    workers: workerLoads(version, found.model, command),
  };
}

function tensorText(spec: SignatureProgram["inputs"][number]): string {
  const shape = spec.shape === undefined ? "[?]" : `[${spec.shape.join(", ")}]`;
  return `${spec.name}: ${spec.dtype} ${shape}`;
}

const ROUNDINGS: ReadonlyMap<string, string> = new Map([
  ["RoundToBfloat16", "bfloat16"],
  ["RoundToHalf", "half"],
]);

/** What a search ranks by besides the product: functions of scores, and masks. */
function rankingTexts({ functions = [], masks = [], vectors }: TopKStep): readonly string[] {
  const names = functions.map(({ op }) => ROUNDINGS.get(op) ?? op.toLowerCase());
  const tests = masks.reduce((sum, { keeps }) => sum + testsInRule(keeps), 0);
  const rules = tests === 1 ? "1 test" : `${tests} tests`;
  return [
    ...(vectors === undefined ? [] : [`best of ${vectors} vectors`]),
    ...(names.length === 0 ? [] : [`by ${names.toReversed().join(" of ")}`]),
    ...(masks.length === 0 ? [] : [`masked by ${rules} of the model's`]),
  ];
}

function flowOf(signature: SignatureProgram, program: ModelProgram): string {
  if (program.pipeline !== undefined) return pipelineText(program.pipeline);
  const stepText = (step: Step): string => {
    if (step.kind === "lookup") return `Lookup(${program.tables[step.table]?.name})`;
    if (step.kind === "topK") {
      const name = program.tables[step.table]?.name;
      return `TopK(${[name, `k=${depthText(signature, step.k)}`, ...rankingTexts(step)].join(", ")})`;
    }
    return step.kind === "host" ? step.op : step.kind;
  };
  return signature.steps.map(stepText).join(" → ");
}

function tableReport(version: ModelVersion, table: TableSpec, index: number): TableReport {
  return {
    name: table.name,
    kind: table.kind,
    keys: keysText(table),
    rows: table.rows,
    dim: table.dim,
    partitions: table.partitions,
    bytes: sum(partitionsOf(table).map((partition) => residentBytes(version, index, partition))),
  };
}

/** Bytes that a replica takes on a worker with a CPU: rows, ids and keys, and codes. */
function residentBytes(version: ModelVersion, index: number, partition: number): number {
  const stored = version.partitionBytes(index, partition);
  const table = version.program.tables[index]!;
  if (table.kind !== "candidate") return stored;
  const { firstRow, endRow } = rowRangeOf(partition, table);
  return stored + codeBytesOf(endRow - firstRow, table.dim);
}

function keysText(table: TableSpec): string {
  if (table.kind === "candidate") return `ids ${table.idDtype ?? "row number"}`;
  return table.keys.kind === "row" ? "row number" : `${table.keys.keyDtype} vocabulary`;
}

const partitionsOf = (table: TableSpec): number[] =>
  Array.from({ length: table.partitions }, (_, partition) => partition);

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);

function workerLoads(
  version: ModelVersion,
  model: string,
  { workers, ...asked }: InspectCommand,
): ModelReport["workers"] {
  const ids = Array.from({ length: workers }, (_, index) => workerId(`w${index}`));
  const loads = new Map(
    ids.map((id) => [id, { worker: id, partitions: 0, bytes: 0, bytesWithExtras: 0 }]),
  );
  for (const [index, table] of version.program.tables.entries()) {
    const owners = placeTable({ model, table }, ids, {
      replication: replicationOf(model, asked),
    });
    for (const [partition, replicas] of owners.entries()) {
      const bytes = residentBytes(version, index, partition);
      for (const load of loads.values()) {
        const isIntended = replicas.includes(load.worker);
        // Workers with room hold a replica of every table that is not cut.
        if (isIntended || isUncut(table)) load.bytesWithExtras += bytes;
        if (!isIntended) continue;
        load.partitions += 1;
        load.bytes += bytes;
      }
    }
  }
  return [...loads.values()];
}

/** Whether the model's own rows of a table are in one partition. */
function isUncut(table: TableSpec): boolean {
  const { partitions } = (table.kind === "candidate" ? table.original : undefined) ?? table;
  return partitions === 1;
}

/** The report for a person. */
export function reportText(report: ModelReport | FailedModel): string {
  const name = `${report.model}, version ${report.version}  (${report.directory})\n`;
  if ("error" in report) {
    const { code, message } = report.error;
    return `${name}cannot be served: ${code}: ${message}\n`;
  }
  // Without a manifest no file is listed; a version that has one uses a file at least that it lists.
  const hasManifest = report.files.some(({ isListed }) => isListed);
  const facts = [
    `fingerprint ${report.fingerprint.slice(0, 16)}…`,
    `dense parts ${byteText(report.denseBytes)}`,
    ...(hasManifest ? [] : ["no SHA256SUMS"]),
  ];
  const heading = `${name}${facts.join(", ")}\n`;
  // A signature without inputs only initialises tables; clients do not call it.
  const called = report.signatures.filter(({ inputs }) => inputs.length > 0);
  const signatures = called.map(
    (signature) =>
      `signature ${signature.name}\n  in    ${signature.inputs.join(", ") || "nothing"}\n  out   ${signature.outputs.join(", ") || "nothing"}\n  flow  ${signature.flow || "nothing"}\n`,
  );
  const described = report.items === undefined ? [] : [align(attributeRows(report.items))];
  const { experiment } = report;
  const arms = experiment === undefined ? [] : [experimentText(experiment, report.model)];
  const warnings = report.warnings.map((warning) => `warning: ${warning}\n`);
  const files = align(fileRows(report.files, hasManifest));
  // A pipeline or an experiment has no tables: workers hold those of its models.
  const [tables, workers] = report.tables.length === 0 ? [[], []] : tableTexts(report);
  const changed = report.changes === undefined ? [] : [changesText(report.changes)];
  const texts = [...tables, ...changed, ...described, files, ...workers];
  return [heading, ...signatures, ...arms, ...warnings, ...texts].join("\n");
}

/** The tables, and what each worker holds of them. */
function tableTexts(report: ModelReport): readonly [string[], string[]] {
  const tables = report.tables.map((table) => [
    table.name,
    table.kind,
    table.keys,
    table.rows.toLocaleString("en"),
    String(table.dim),
    String(table.partitions),
    byteText(table.bytes),
  ]);
  const workers = report.workers.map((load) => [
    load.worker,
    String(load.partitions),
    byteText(load.bytes),
    byteText(load.bytesWithExtras),
  ]);
  return [
    [align([["table", "kind", "asked by", "rows", "dim", "partitions", "memory"], ...tables])],
    [align([["worker", "replicas", "memory", "with room (--extra-memory)"], ...workers])],
  ];
}

function changesText({ file, vectors, removed }: ItemChanges): string {
  const counts = [vectors, removed].map((count) => count.toLocaleString("en"));
  return `${file} adds or replaces ${counts[0]} of the items, and removes ${counts[1]}\n`;
}

function fileRows(files: readonly BoundFile[], hasManifest: boolean): string[][] {
  const rows = files.map((file) => [
    file.name,
    byteText(file.bytes),
    file.entries?.toLocaleString("en") ?? "",
    `${file.sha256.slice(0, 16)}…`,
    ...(hasManifest ? [file.isListed ? "as listed" : "not listed"] : []),
  ]);
  return [["file", "size", "entries", "sha256", ...(hasManifest ? ["SHA256SUMS"] : [])], ...rows];
}

function attributeRows({ attributes }: ItemDescription): string[][] {
  const rows = attributes.map(({ name, type, isList, distinct, bytes }) => [
    name,
    isList ? `list of ${type}` : type,
    distinct.toLocaleString("en"),
    byteText(bytes),
  ]);
  return [["attribute", "type", "distinct values", "memory"], ...rows];
}
