// One table of an opened version in the compute thread: its partitions on the device, what answers need
// beside the rows (ids, key indexes), and the memory of both.

import type { Accelerator, Resident } from "@winnow/accelerator";
import { WinnowError, columnBytes, createKeyIndex } from "@winnow/core";
import type { AttributeColumns, KeyIndex, TableSpec, Tensor } from "@winnow/core";

import type { PartitionSource } from "./reader/model-reader.ts";

/** Most bytes per key of a vocabulary's open-addressing table (core/key-index). */
const KEY_INDEX_BYTES_PER_KEY = 16;

/** One partition that answers queries. */
export interface ResidentPartition {
  readonly partition: number;
  readonly resident: Resident;
  /** Ids of a candidate table's partition, by local row. */
  readonly ids: Tensor | undefined;
  /** Attributes of a candidate table's partition, by name, where the version brings any. */
  readonly attributes: AttributeColumns | undefined;
  /** Index from key to row of a keyed table's partition. */
  readonly keyIndex: KeyIndex | undefined;
  /** Bytes of host memory: ids, attributes, keys and their index. */
  readonly hostBytes: number;
}

/** The held partitions of one table. */
export class ResidentTable {
  readonly spec: TableSpec;
  readonly #accelerator: Pick<Accelerator, "release">;
  readonly #partitions = new Map<number, ResidentPartition>();

  constructor(spec: TableSpec, accelerator: Pick<Accelerator, "release">) {
    this.spec = spec;
    this.#accelerator = accelerator;
  }

  /** Adds a loaded partition, which answers from now on. */
  add(
    partition: number,
    parts: {
      readonly resident: Resident;
      readonly source: Pick<PartitionSource, "keyed" | "attributes">;
      readonly ids: Tensor | undefined;
    },
  ): ResidentPartition {
    const { keyed, attributes: columns } = parts.source;
    const { ids } = parts;
    const { spec } = this;
    const keyIndex =
      spec.kind === "keyed" && keyed !== undefined ? createKeyIndex(spec, keyed) : undefined;
    const keyedBytes =
      keyed === undefined
        ? 0
        : keyed.globalRows.byteLength + keyed.keyRows.byteLength + tensorBytes(keyed.keys);
    const attributeBytes = (columns ?? []).reduce((sum, column) => sum + columnBytes(column), 0);
    const indexBytes = KEY_INDEX_BYTES_PER_KEY * (keyed?.keyRows.length ?? 0);
    const hostBytes = tensorBytes(ids) + attributeBytes + keyedBytes + indexBytes;
    const attributes = columns && new Map(columns.map((column) => [column.spec.name, column]));
    const { resident } = parts;
    const added = { partition, resident, ids, attributes, keyIndex, hostBytes };
    this.#partitions.set(partition, added);
    return added;
  }

  /** The held partition. @throws WinnowError FAILED_PRECONDITION for one that is not held */
  at(partition: number): ResidentPartition {
    const found = this.#partitions.get(partition);
    if (found !== undefined) return found;
    const message = `Partition ${partition} of table "${this.spec.name}" is not held here`;
    throw new WinnowError("FAILED_PRECONDITION", message);
  }

  /** Whether this copy of a partition is still held: a release and another load give another copy. */
  holds(held: ResidentPartition): boolean {
    return this.#partitions.get(held.partition) === held;
  }

  has(partition: number): boolean {
    return this.#partitions.has(partition);
  }

  /** The held partitions, in no order. */
  held(): Iterable<ResidentPartition> {
    return this.#partitions.values();
  }

  /** Frees the memory of one partition. A partition that is not held is ignored. */
  async release(partition: number): Promise<void> {
    const found = this.#partitions.get(partition);
    if (found === undefined) return;
    this.#partitions.delete(partition);
    await this.#accelerator.release(found.resident);
  }
}

function tensorBytes(tensor: Tensor | undefined): number {
  if (tensor === undefined) return 0;
  if (tensor.dtype === "string") return tensor.data.byteLength + tensor.data.offsets.byteLength;
  return tensor.data.byteLength;
}
