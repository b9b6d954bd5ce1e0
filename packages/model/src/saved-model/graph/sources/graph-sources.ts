// What a signature's graph refers to outside of the graph: variables in the checkpoint, contents of
// lookup tables, files. One per version, shared by its signatures.

import { WinnowError, excerpt } from "@winnow/core";
import type { VersionFiles } from "../../version-files.ts";
import { isNarrowFloat } from "../../bundle/data-type.ts";
import { graphDtypeOf } from "../definition/graph-dtype.ts";
import { narrowValue } from "../graph-value.ts";
import type { GraphValue } from "../graph-value.ts";
import type { MetaGraph } from "../definition/meta-graph.ts";
import { OperationTable } from "../definition/operation-table.ts";
import { TableContents, tableOrigins } from "./table-contents.ts";
import { keysByFullName, restoredState } from "./variable-keys.ts";
import type { RestoredTensor } from "./variable-keys.ts";

/** Resolves the handles of a graph. */
export interface GraphSources {
  readonly files: VersionFiles;
  readonly meta: MetaGraph;
  readonly operations: OperationTable;
  readonly tables: TableContents;
  /** The content of a variable, unread. @throws WinnowError NOT_FOUND when no checkpoint key has it */
  variable(name: string): GraphValue;
}

/** Follows the restore call and the initialiser. @throws WinnowError for a broken graph */
export function openGraphSources(files: VersionFiles, meta: MetaGraph): GraphSources {
  const operations = new OperationTable(meta.operations);
  const restored = restoredState(meta, operations);
  const origins = tableOrigins(meta, operations);
  for (const [name, keys] of restored.tables) {
    if (!origins.has(name)) origins.set(name, { kind: "checkpoint", ...keys });
  }
  let fullNames: ReadonlyMap<string, string> | undefined;
  const values = new Map<string, GraphValue>();
  const tensorOf = (name: string): RestoredTensor => {
    const known = restored.variables.get(name);
    if (known !== undefined) return known;
    fullNames ??= keysByFullName(files);
    const found = fullNames.get(name) ?? (files.entryOf(name) === undefined ? undefined : name);
    if (found !== undefined) return { kind: "bundle", key: found };
    throw new WinnowError("NOT_FOUND", `the checkpoint holds no variable ${excerpt(name)}`);
  };
  const variable = (name: string): GraphValue => {
    const known = values.get(name);
    const value = known ?? valueOf(files, tensorOf(name));
    values.set(name, value);
    return value;
  };
  return { files, meta, operations, tables: new TableContents(files, origins), variable };
}

function valueOf(files: VersionFiles, stored: RestoredTensor): GraphValue {
  const { key, slice } = stored;
  const entry = files.entryOf(key);
  if (entry === undefined) {
    throw new WinnowError("NOT_FOUND", `the checkpoint has no key ${excerpt(key)}`);
  }
  const { dtype = graphDtypeOf(0) } = entry;
  const shape = slice?.length ?? entry.shape;
  return isNarrowFloat(dtype)
    ? narrowValue(dtype, { dtype: "float32", shape, stored })
    : { dtype, shape, stored };
}
