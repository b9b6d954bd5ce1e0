// Whether a worker could announce the tables of a version. An announcement has the checksum shares of all that a table is
// read from, and its readers refuse the whole of one with more shares than they take: the worker would be gone with all
// of its models.

import { TABLE_SOURCES_MAX, WinnowError, excerpt } from "@winnow/core";
import type { CheckProgram } from "./model-reader.ts";

/**
 * The check that no table is read from too many stored tensors.
 * @throws WinnowError UNIMPLEMENTED: the version is not opened again until its files change
 */
export const checkSources: CheckProgram = async ({ tables }, directory) => {
  for (const { name, sources } of tables) {
    if (sources.length <= TABLE_SOURCES_MAX) continue;
    const most = `a table is read from at most ${TABLE_SOURCES_MAX} stored tensors`;
    const text = `Cannot serve ${excerpt(directory)}: the items of "${excerpt(name)}" are computed of ${sources.length}`;
    throw new WinnowError("UNIMPLEMENTED", `${text}; ${most}: store some of them as one`);
  }
};
