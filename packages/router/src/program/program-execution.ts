// The steps of a program that need more than this process's arithmetic: lookups and searches go to
// workers (or to tables at hand), dense parts to the dense engine.

import { setMaxListeners } from "node:events";
import type { CandidateTable, Filter, ProgramExecutors, Tensor } from "@winnow/core";
import { WinnowError, filterText, parseFilterText } from "@winnow/core";
import { boundFilter } from "../admission/search-cost.ts";
import type { BoundFilter } from "../admission/search-cost.ts";
import type { LoadedProgram } from "../versions/loaded-program.ts";
import { queryLookup } from "./lookup-query.ts";
import { checkKeys } from "../request-limits.ts";
import type { RouterStage } from "../router-observer.ts";
import type { RequestContext } from "../request-context.ts";
import type { RequestScope } from "../scatter/scatter-question.ts";
import type { TableQueryParts } from "../scatter/table-query.ts";
import { queryTopK } from "./top-k-query.ts";

/** One request's view of a program. */
export interface ProgramExecution {
  readonly loaded: LoadedProgram;
  readonly scope: RequestScope;
  /** Ids never to be returned: none, one list for all instances, or one per instance. */
  readonly exclude: readonly Tensor[];
  /** The only ids that may be returned: likewise. */
  readonly include: readonly Tensor[];
  /** Likewise. */
  readonly filters: readonly BoundFilter[];
  /** Attributes wanted of each item. */
  readonly attributes: readonly string[];
  /** Hears the attributes of the items that a search returned. */
  readonly described: (attributes: Tensor) => void;
  /** Takes note of its stages. */
  readonly context: Pick<RequestContext, "noteStage">;
}

/** How `runProgram` has the steps of this request done. */
export function executorsOf(
  parts: TableQueryParts,
  { loaded, scope, described, context, ...wanted }: ProgramExecution,
): ProgramExecutors {
  const { program, localTables, denseModels } = loaded;
  const { clock } = parts.environment;
  const timed = async <Result>(stage: RouterStage, work: Promise<Result>): Promise<Result> => {
    const startMs = clock.nowMs();
    const result = await work;
    const elapsedMs = clock.nowMs() - startMs;
    context.noteStage(stage, elapsedMs);
    parts.observer.stage?.(stage, elapsedMs, scope.version.model);
    return result;
  };
  return {
    tables: program.tables,
    vocabularies: loaded.vocabularies,
    lookup: async (step, keys, signal) => {
      const table = program.tables[step.table];
      checkKeys(table?.name ?? "", keys, parts.settings);
      const local = localTables.get(step.table);
      if (local !== undefined) return local.lookup(keys);
      if (table?.kind !== "keyed") throw broken(step.node);
      allowListeners(signal);
      const question = { tableNumber: step.table, table, keys, signal };
      return await timed("lookup", queryLookup(parts, question, scope));
    },
    dense: async (step, inputs, signal) => {
      const model = denseModels[step.model];
      if (model === undefined) throw broken(`dense model ${step.model}`);
      const names = step.outputs.map((output) => output.name);
      allowListeners(signal);
      return await timed("dense", model.run(inputs, names, signal));
    },
    topK: async (step, { query, k, admits }, signal) => {
      const table = program.tables[step.table];
      if (table?.kind !== "candidate" || query.dtype !== "float32") throw broken(step.node);
      allowListeners(signal);
      const filters = withMask(wanted.filters, admits, { table, queries: query.shape[0]! });
      const question = { step, table, vectors: query.data, k, signal, ...wanted, filters };
      const { attributes, ...answer } = await timed("topK", queryTopK(parts, question, scope));
      if (attributes !== undefined) described(attributes);
      return answer;
    },
  };
}

/** Filters of a request and those of a mask: both hold. */
function withMask(
  filters: readonly BoundFilter[],
  admits: readonly Filter[] | undefined,
  { table, queries }: { readonly table: CandidateTable; readonly queries: number },
): readonly BoundFilter[] {
  if (admits === undefined) return filters;
  const masks = admits.map((each) => boundFilter(each, table.masks ?? []));
  if (filters.length === 0) return masks;
  const length = filters.length > 1 || masks.length > 1 ? queries : 1;
  return Array.from({ length }, (_, query) => {
    const [own, mask] = [filters, masks].map((list) => list[list.length > 1 ? query : 0]!);
    const of = [own!, mask!].map(({ text }) => parseFilterText(text));
    return {
      text: filterText({ kind: "and", of }),
      conditions: own!.conditions + mask!.conditions,
    };
  });
}

/** Every slice under way listens to the request's signal; `slicesAtOnce` bounds their number per step. */
function allowListeners(signal: AbortSignal): void {
  setMaxListeners(0, signal);
}

function broken(what: string): WinnowError {
  return new WinnowError("INTERNAL", `The program's ${what} does not fit its tables`);
}
