// The compute thread's end of filters that the event loop searches with. A copy of the rows that a filter admits is often
// so small that waking a thread takes longer than its search: such a copy goes to the event loop with all that an answer
// needs, which rows of the partition it holds, and their ids; a large one goes without ids, which the event loop has
// with the partition. A filter that admits too many rows for a copy goes by itself.
//
//   compute thread   copy made        ─▶ SharedCopy (number, rows, ids) ─▶ event loop   addCopy
//                    used, not copied ─▶ SharedMask (number)            ─▶ event loop   addMask
//                    given up         ─▶ its name                       ─▶ event loop   dropAdmitted
//
// The event loop never keeps a copy or a filter alive: it looks the number up for each search, and asks the compute
// thread where it is gone. So the memory of what is given up is free at once, whenever the event loop hears of it.

import type { Accelerator, RowFilter } from "@winnow/accelerator";

import type { PackedKeys } from "../compute.ts";
import type { AdmittedCopy } from "../filters/admitted-copy.ts";
import type { AdmittedShares, SharedAdmitted } from "../filters/admitted-shares.ts";
import { bytesOfKeys, sharedKeys, sharedRows, unpackKeys, viewOfKeys } from "../packed-keys.ts";
import type { ResidentPartition } from "../resident-table.ts";
import { idsOfRows } from "../search/winner-ids.ts";
import { SHARED_VALUES_MAX, SMALL_VALUES_MAX, isLargeShape } from "./shared-rows.ts";
import type { AdmittedNews, SharedCopy } from "./shared-rows.ts";

/** Bytes that the ids of a shared copy may take. */
const IDS_BYTES_MAX = 2 ** 21;

/** A partition as the event loop knows it. */
type NamedPartition = Pick<SharedCopy, "name" | "vectorDim">;

/** Shares filters, and copies of the rows that they admit, of the partitions that it was told the names of. */
export class AdmittedSharing implements AdmittedShares {
  readonly #accelerator: Accelerator;
  readonly #tell: (news: AdmittedNews) => void;
  readonly #named = new WeakMap<ResidentPartition, NamedPartition>();

  constructor(accelerator: Accelerator, tell: (news: AdmittedNews) => void) {
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
    const isLarge = isLargeShape({ rows: localRows.length, dim });
    // The event loop has the ids of a partition that it may scan.
    if (isLarge && rows * dim > SHARED_VALUES_MAX) return undefined;
    const packed = isLarge ? undefined : idsOfCopy(partition, localRows);
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
    return { bytes: idBytes + localRows.byteLength, takeUses: () => takeUses(uses) };
  }

  shareMask(
    partition: ResidentPartition,
    text: string,
    filter: RowFilter,
  ): SharedAdmitted | undefined {
    const named = this.#named.get(partition);
    const { rows, dim } = partition.resident;
    const share = this.#accelerator.shareFilter?.(filter);
    if (named === undefined || share === undefined || rows * dim > SHARED_VALUES_MAX) {
      return undefined;
    }
    const uses = sharedRows(new Uint32Array(1));
    const { name } = named;
    this.#tell({ masked: { name, text, share, admitsAll: filter.admitted === rows, uses } });
    return { bytes: 0, takeUses: () => takeUses(uses) };
  }

  drop(partition: ResidentPartition, text: string): void {
    const named = this.#named.get(partition);
    if (named !== undefined) this.#tell({ dropped: { name: named.name, text } });
  }
}

function idsOfCopy(partition: ResidentPartition, localRows: Uint32Array): PackedKeys | undefined {
  const { firstRow } = partition.resident;
  const rows = localRows.map((row) => firstRow + row);
  return idsOfRows(rows, [partition]);
}

/** Whether a flag that searches set was set since this was last asked. */
function takeUses(uses: Uint32Array): boolean {
  return Atomics.exchange(uses, 0, 0) > 0;
}
