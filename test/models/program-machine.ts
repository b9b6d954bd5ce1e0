// Answers a model's signatures in one process and in the most obvious way: every partition of every
// table is read, lookups ask each partition for its keys, searches score every row canonically and
// sort. What a cluster answers must equal this.

import { InferenceSession, Tensor as OnnxTensor } from "onnxruntime-node";
import {
  admittedRows,
  createKeyIndex,
  indexVocabularies,
  partitionOfBytes,
  partitionOfInteger,
  runProgram,
  scoreValues,
  StringColumn,
  WinnowError,
  type AttributeColumns,
  type DenseStep,
  type Filter,
  type KeyIndex,
  type KeyedPartition,
  type LookupStep,
  type ProgramExecutors,
  type SignatureProgram,
  type SoftmaxSums,
  type SumsQuestion,
  type Tensor,
  type TopKAnswer,
  type TopKQuestion,
  type TopKStep,
} from "@winnow/core";
import type { ModelVersion } from "@winnow/model";

interface KeyedPart {
  readonly index: KeyIndex;
  readonly partition: KeyedPartition;
  readonly values: Float32Array;
}

interface Candidates {
  readonly values: Float32Array;
  readonly ids: Tensor | undefined;
  readonly parts: readonly ColumnPart[];
}

/** What is known of the items of a partition. */
interface ColumnPart {
  readonly firstRow: number;
  readonly rows: number;
  readonly columns: AttributeColumns;
}

/** A model ready to answer. */
export class ProgramMachine {
  readonly #version: ModelVersion;
  readonly #sessions: readonly InferenceSession[];
  readonly #keyed = new Map<number, readonly KeyedPart[]>();
  readonly #candidates = new Map<number, Candidates>();

  private constructor(version: ModelVersion, sessions: readonly InferenceSession[]) {
    this.#version = version;
    this.#sessions = sessions;
  }

  /** Loads the dense parts; tables are read on first use. */
  static async load(version: ModelVersion): Promise<ProgramMachine> {
    const sessions: InferenceSession[] = [];
    for (const bytes of version.program.denseModels) {
      sessions.push(await InferenceSession.create(bytes, { intraOpNumThreads: 1 }));
    }
    return new ProgramMachine(version, sessions);
  }

  /** A signature by name. */
  signature(name: string): SignatureProgram {
    const found = this.#version.program.signatures.find((signature) => signature.name === name);
    if (found === undefined) throw new Error(`no signature ${name}`);
    return found;
  }

  /** Runs a signature. */
  run(
    signature: SignatureProgram,
    inputs: ReadonlyMap<string, Tensor>,
  ): Promise<ReadonlyMap<string, Tensor>> {
    const { program } = this.#version;
    const executors: ProgramExecutors = {
      tables: program.tables,
      vocabularies: indexVocabularies(program.vocabularies),
      lookup: (step, keys) => Promise.resolve(this.#lookup(step, keys)),
      dense: (step, values) => this.#dense(step, values),
      sums: (step, asked) => Promise.resolve(this.#sums(step, asked)),
      topK: (step, question) => Promise.resolve(this.#topK(step, question)),
    };
    return runProgram(signature, { inputs }, executors);
  }

  #lookup(step: LookupStep, keys: Tensor): Tensor {
    const { dim, partitions } = this.#version.program.tables[step.table]!;
    const parts = this.#keyedParts(step.table);
    const count = keys.data.length;
    const data = new Float32Array(count * dim);
    for (let at = 0; at < count; at += 1) {
      const key = keyAt(keys, at);
      const part = parts[partitionOfKey(key, partitions)]!;
      const [row] = part.index.localRows(key);
      data.set(part.values.subarray(row! * dim, (row! + 1) * dim), at * dim);
    }
    return { dtype: "float32", shape: [...keys.shape, dim], data };
  }

  #keyedParts(table: number): readonly KeyedPart[] {
    const known = this.#keyed.get(table);
    if (known !== undefined) return known;
    const spec = this.#version.program.tables[table]!;
    if (spec.kind !== "keyed") throw new Error(`table ${table} is searched`);
    const parts = Array.from({ length: spec.partitions }, (_, number) => {
      const reader = this.#version.openPartition(table, number);
      const values = joined([...reader.chunks()]);
      const partition = reader.keyed!;
      return { index: createKeyIndex(spec, partition), partition, values };
    });
    this.#keyed.set(table, parts);
    return parts;
  }

  async #dense(
    step: DenseStep,
    inputs: ReadonlyMap<string, Tensor>,
  ): Promise<ReadonlyMap<string, Tensor>> {
    const feeds = Object.fromEntries(
      Array.from(inputs, ([name, { dtype, shape, data }]) => [
        name,
        new OnnxTensor(dtype as "float32", data as Float32Array, shape),
      ]),
    );
    const results = await this.#sessions[step.model]!.run(feeds).catch((cause: unknown) => {
      throw new WinnowError("INVALID_ARGUMENT", String(cause), { cause });
    });
    return new Map(
      step.outputs.map(({ name, dtype }) => {
        const { dims, data } = results[name]!;
        return [name, { dtype, shape: [...dims], data } as Tensor];
      }),
    );
  }

  #sums({ table }: TopKStep, { query, admits, functions }: SumsQuestion): SoftmaxSums {
    const { dim, rows } = this.#version.program.tables[table]!;
    const { values, parts } = this.#readCandidates(table);
    const valueOf = scoreValues(functions);
    const lists = Array.from({ length: query.shape[0]! }, (_, at) => {
      const vector = (query.data as Float32Array).subarray(at * dim, (at + 1) * dim);
      const filter = admits?.[admits.length > 1 ? at : 0];
      return Array.from({ length: rows }, (_each, row) => row)
        .filter((row) => filter === undefined || isAdmitted(filter, parts, row))
        .map((row) => valueOf(at)(Math.fround(dot(vector, values, row))));
    });
    const best = Float32Array.from(lists, (scores) => Math.max(-Infinity, ...scores));
    const sum = Float64Array.from(lists, (scores, at) => {
      const powers = scores.filter((score) => score > -Infinity);
      return powers.reduce((total, score) => total + Math.exp(score - best[at]!), 0);
    });
    return { best, sum };
  }

  #topK({ table }: TopKStep, { query, k: most, admits }: TopKQuestion): TopKAnswer {
    const { dim, rows } = this.#version.program.tables[table]!;
    const { values, ids, parts } = this.#readCandidates(table);
    const queries = query.shape[0]!;
    const lists = Array.from({ length: queries }, (_, at) => {
      const vector = (query.data as Float32Array).subarray(at * dim, (at + 1) * dim);
      const filter = admits?.[admits.length > 1 ? at : 0];
      const all = Float32Array.from({ length: rows }, (_, row) => dot(vector, values, row));
      return Array.from(all.keys())
        .filter((row) => filter === undefined || isAdmitted(filter, parts, row))
        .toSorted((a, b) => all[b]! - all[a]! || a - b)
        .slice(0, most)
        .map((row) => ({ row, score: all[row]! }));
    });
    const counts = Uint32Array.from(lists, ({ length }) => length);
    const k = queries === 0 ? most : Math.max(0, ...counts);
    const scores = new Float32Array(queries * k);
    const found = new Int32Array(queries * k);
    for (const [at, list] of lists.entries()) {
      for (const [rank, { row, score }] of list.entries()) {
        found[at * k + rank] = row;
        scores[at * k + rank] = score;
      }
    }
    const shape = [queries, k];
    return {
      scores: { dtype: "float32", shape, data: scores },
      rows: { dtype: "int32", shape, data: found },
      ids: ids === undefined ? undefined : { ...taken(ids, found), shape },
      ...(counts.some((count) => count < most) && { counts }),
    };
  }

  #readCandidates(table: number): Candidates {
    const known = this.#candidates.get(table);
    if (known !== undefined) return known;
    const { partitions } = this.#version.program.tables[table]!;
    const chunks: Float32Array[] = [];
    const ids: Tensor[] = [];
    const parts: ColumnPart[] = [];
    for (let partition = 0; partition < partitions; partition += 1) {
      const reader = this.#version.openPartition(table, partition);
      chunks.push(...reader.chunks());
      if (reader.ids !== undefined) ids.push(reader.ids);
      const { firstRow, rows, attributes = [] } = reader;
      parts.push({ firstRow, rows, columns: new Map(attributes.map((of) => [of.spec.name, of])) });
    }
    const candidates = { values: joined(chunks), ids: joinedIds(ids), parts };
    this.#candidates.set(table, candidates);
    return candidates;
  }
}

function isAdmitted(filter: Filter, parts: readonly ColumnPart[], row: number): boolean {
  const { firstRow, rows, columns } = parts.findLast((part) => part.firstRow <= row)!;
  const at = row - firstRow;
  return ((admittedRows(filter, { columns, rows, firstRow })[at >> 3]! >> (at & 7)) & 1) === 1;
}

function keyAt(keys: Tensor, at: number): Tensor {
  if (keys.dtype === "string") {
    return { dtype: "string", shape: [1], data: keys.data.slice(at, at + 1) };
  }
  return { dtype: "int64", shape: [1], data: (keys.data as BigInt64Array).slice(at, at + 1) };
}

function partitionOfKey(key: Tensor, partitions: number): number {
  if (key.dtype === "string") return partitionOfBytes(key.data.at(0), partitions);
  return partitionOfInteger((key.data as BigInt64Array)[0]!, partitions);
}

function dot(vector: Float32Array, rows: Float32Array, row: number): number {
  let sum = 0;
  for (const [index, value] of vector.entries()) sum += value * rows[row * vector.length + index]!;
  return sum + 0;
}

function joined(chunks: readonly Float32Array[]): Float32Array {
  const values = new Float32Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const chunk of chunks) {
    values.set(chunk, end);
    end += chunk.length;
  }
  return values;
}

function joinedIds(parts: readonly Tensor[]): Tensor | undefined {
  const [first] = parts;
  if (first === undefined) return undefined;
  if (first.dtype === "string") {
    const strings = parts.flatMap(({ data }) =>
      Array.from({ length: data.length }, (_, at) => (data as StringColumn).at(at)),
    );
    return { dtype: "string", shape: [strings.length], data: StringColumn.fromBytes(strings) };
  }
  const numbers = parts.flatMap(({ data }) => [...(data as BigInt64Array)]);
  const data =
    first.dtype === "int64" ? BigInt64Array.from(numbers) : Int32Array.from(numbers, Number);
  return { dtype: first.dtype, shape: [numbers.length], data } as Tensor;
}

function taken(ids: Tensor, rows: Int32Array): Tensor {
  if (ids.dtype === "string") return { ...ids, data: ids.data.take(rows) };
  const picked = Array.from(rows, (row) => (ids.data as BigInt64Array)[row]!);
  return {
    ...ids,
    data: ids.dtype === "int64" ? BigInt64Array.from(picked) : Int32Array.from(picked, Number),
  } as Tensor;
}
