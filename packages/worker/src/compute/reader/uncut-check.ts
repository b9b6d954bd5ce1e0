// Whether routers may hold the tables of a version that cannot be cut into partitions. Whoever wants every item table on
// the workers allows none: the version is then refused with the operation that stands in the way, instead of a warning.

import { WinnowError, excerpt, uncutTableText } from "@winnow/core";
import type { CheckProgram } from "./model-reader.ts";

/**
 * The check that the uncut tables of a version take no more than `bytesMax` in all.
 * @throws WinnowError UNIMPLEMENTED: the version is not opened again until its files change
 */
export function uncutCheck(bytesMax: number): CheckProgram {
  return async ({ uncutTables = [] }, directory) => {
    const bytes = uncutTables.reduce((sum, table) => sum + table.bytes, 0);
    if (bytes <= bytesMax) return;
    const tables = uncutTables.map(uncutTableText).join(". ");
    const text = `Cannot serve ${excerpt(directory)}: ${tables}. At most ${bytesMax} bytes may be uncut`;
    throw new WinnowError("UNIMPLEMENTED", `${text} (--worker-uncut-bytes-max)`);
  };
}
