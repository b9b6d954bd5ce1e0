// The compute thread's end of copies that the event loop searches: a copy of the rows that a filter admits is
// often so small that waking a thread takes longer than its search. Such a copy goes to the event loop with
// all that an answer needs: which rows of the partition it holds, and their ids.
//
//   compute thread   copy made  ─▶ SharedCopy (number, rows, ids) ─▶ event loop   addCopy
//                    given up   ─▶ its name                       ─▶ event loop   dropCopy
//
// The event loop never keeps a copy alive: it looks the number up for each search, and asks the compute thread
// where the copy is gone. So the memory of a copy that is given up is free at once, whenever the event loop
// hears of it.

import type { Accelerator } from "@winnow/accelerator";

import type { AdmittedCopy } from "../filters/admitted-copy.ts";
import type { AdmittedShares, SharedAdmitted } from "../filters/admitted-shares.ts";
import { bytesOfKeys, sharedKeys, sharedRows, unpackKeys, viewOfKeys } from "../packed-keys.ts";
import type { ResidentPartition } from "../resident-table.ts";
import { idsOfRows } from "../search/winner-ids.ts";
import { SMALL_VALUES_MAX } from "./shared-rows.ts";
import type { CopyNews, SharedCopy } from "./shared-rows.ts";

/** Bytes that the ids of a shared copy may take. */
const IDS_BYTES_MAX = 2 ** 21;

/** A partition as the event loop knows it. */
type NamedPartition = Pick<SharedCopy, "name" | "vectorDim">;

/** Shares copies of the partitions that it was told the names of. */
export class CopySharing implements AdmittedShares {
  readonly #accelerator: Accelerator;
  readonly #tell: (news: CopyNews) => void;
  readonly #named = new WeakMap<ResidentPartition, NamedPartition>();

  constructor(accelerator: Accelerator, tell: (news: CopyNews) => void) {
    this.#accelerator = accelerator;
    this.#tell = tell;
  }

  /** Makes the name of a loaded partition known, and how many values of its rows are the items' vectors. */
  name(partition: ResidentPartition, named: NamedPartition): void {
    this.#named.set(partition, named);
  }

  wants(partition: ResidentPartition, admitted: number): boolean {
    const { rows, dim } = partition.resident;
    const isSmall = admitted === 0 || rows * dim <= SMALL_VALUES_MAX;
    return isSmall && this.#accelerator.share !== undefined && this.#named.has(partition);
  }

  share(
    partition: ResidentPartition,
    text: string,
    copy: AdmittedCopy | undefined,
  ): SharedAdmitted | undefined {
    const named = this.#named.get(partition);
    const { dim, firstRow, rows } = partition.resident;
    const localRows = copy?.localRows ?? new Uint32Array();
    if (named === undefined || this.#accelerator.share === undefined) return undefined;
    if (localRows.length * dim > SMALL_VALUES_MAX) return undefined;
    const packed = idsOfRows(
      localRows.map((row) => firstRow + row),
      [partition],
    );
    const idBytes = packed === undefined ? 0 : bytesOfKeys(packed);
    if (idBytes > IDS_BYTES_MAX) return undefined;
    const ids = packed && viewOfKeys(sharedKeys(unpackKeys(packed)));
    const uses = sharedRows(new Uint32Array(1));
    this.#tell({
      copied: {
        ...named,
        text,
        share: copy && this.#accelerator.share(copy.resident),
        localRows: sharedRows(localRows),
        ids,
        dim,
        firstRow,
        partitionRows: rows,
        uses,
      },
    });
    return {
      bytes: idBytes + localRows.byteLength,
      takeUses: () => Atomics.exchange(uses, 0, 0) > 0,
    };
  }

  drop(partition: ResidentPartition, text: string): void {
    const named = this.#named.get(partition);
    if (named !== undefined) this.#tell({ dropped: { name: named.name, text } });
  }
}
