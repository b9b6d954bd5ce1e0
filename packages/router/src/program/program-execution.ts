// Runs the program of a request. Steps that need more than arithmetic on a few values are done here: lookups
// and searches go to workers (or to tables in this process), dense parts to the dense engine.

import type {
  CandidateTable,
  Filter,
  ProgramExecutors,
  SignatureProgram,
  Tensor,
  TraceSpan,
} from "@winnow/core";
import { ROW_COLUMN, WinnowError, filterText, parseFilterText, runProgram } from "@winnow/core";
import { boundFilter } from "../admission/search-cost.ts";
import type { BoundFilter, SearchConditions } from "../admission/search-cost.ts";
import { queryLookup } from "./lookup/lookup-query.ts";
import type { Prediction } from "../predictor.ts";
import { checkKeys } from "../limits/request-limits.ts";
import type { RouterStage } from "../router-observer.ts";
import type { TableQueryParts } from "../scatter/table-query.ts";
import type { TextThreads } from "./text-threads.ts";
import { querySums, queryTopK } from "./search/top-k-query.ts";
import type { RequestRun } from "./request-run.ts";
import {
  describedItems,
  namesWithScores,
  rankingsOutside,
  withRankings,
} from "./ranking/uncut-ranking.ts";

/** What the steps of a program need of the router. */
export interface ProgramParts extends TableQueryParts {
  readonly texts: TextThreads;
}

/** Runs a request. @throws WinnowError as `runProgram` does; the signal's reason once the context is aborted */
export async function runRequest(parts: ProgramParts, run: RequestRun): Promise<Prediction> {
  const { version, signature, inputs, k, context } = run;
  const { signal } = context;
  signal.throwIfAborted();
  const executors = executorsOf(parts, run);
  let outputs;
  try {
    outputs = await runProgram(signature, { inputs, signal, k }, executors);
  } catch (error) {
    // Errors after an abort are consequences; the reason of the abort is the cause.
    throw signal.aborted ? signal.reason : error;
  }
  return { version, outputs, coverage: run.coverage, attributes: run.described };
}

/** How the steps of this request are done, for `runProgram`. */
function executorsOf(parts: ProgramParts, run: RequestRun): ProgramExecutors {
  const { loaded, conditions, context, version } = run;
  const { program, localTables, denseModels } = loaded;
  const timed = <Result>(
    stage: RouterStage,
    work: (span: TraceSpan | undefined) => Promise<Result>,
  ): Promise<Result> =>
    context.stage(stage, work, (elapsedMs) =>
      parts.observer.stage?.(stage, elapsedMs, version.model),
    );
  return {
    tables: program.tables,
    vocabularies: loaded.vocabularies,
    host: (step, texts, signal) => parts.texts.run(step, texts, signal),
    lookup: (step, keys, signal) => {
      const table = program.tables[step.table];
      checkKeys(table?.name ?? "", keys, parts.settings);
      const local = localTables.get(step.table);
      if (local !== undefined) return local.lookup(keys);
      if (table?.kind !== "keyed") throw broken(step.node);
      const { table: tableNumber } = step;
      const { itemRows } = run;
      const brought = itemRows?.rowsOf({ version, table: tableNumber }, keys);
      const ask = (): Promise<Tensor> =>
        timed("lookup", (span) =>
          queryLookup(parts, { tableNumber, table, keys, signal, span }, run),
        );
      if (brought instanceof Promise) return brought.then((rows) => rows ?? ask());
      return brought ?? ask();
    },
    dense: async (step, inputs, signal) => {
      const model = denseModels[step.model];
      if (model === undefined) throw broken(`dense model ${step.model}`);
      const { signature, k } = run;
      const rankings = rankingsOutside(step, { k, conditions });
      const names = namesWithScores(step, rankings);
      const given = await timed("dense", () => model.run(inputs, names, signal));
      const { vocabularies } = loaded;
      const { rankedItems } = program;
      const asked = { signature, vocabularies, rankedItems, k, conditions, signal };
      const outputs =
        rankings.length === 0
          ? given
          : await timed("topK", () => withRankings({ step, rankings }, given, asked));
      const { attributes } = conditions;
      if (attributes.length > 0 && !searches(signature)) {
        run.described ??= describedItems(step, outputs, { rankedItems, names: attributes });
      }
      return outputs;
    },
    described: (attributes) => {
      run.described = attributes;
    },
    sums: async (step, { query, admits, functions }, signal) => {
      const table = program.tables[step.table];
      if (table?.kind !== "candidate" || query.dtype !== "float32") throw broken(step.node);
      const { data: vectors } = query;
      const filters = admits === undefined ? [] : boundMasks(admits, table);
      return await timed("topK", (span) =>
        querySums(parts, { step, table, vectors, filters, functions, signal, span }, run),
      );
    },
    topK: (step, { query, k, admits, chosen }, signal) => {
      const table = program.tables[step.table];
      if (table?.kind !== "candidate" || query.dtype !== "float32") throw broken(step.node);
      const queries = query.shape[0]!;
      const own = chosen === undefined ? conditions : chosenOf(conditions, chosen);
      const admitted = admits === undefined ? own : withMask(own, admits, { table, queries });
      const { data: vectors } = query;
      const { itemRows } = run;
      return timed("topK", (span) => {
        const search = { step, table, vectors, k, conditions: admitted, itemRows, signal, span };
        return queryTopK(parts, search, run);
      });
    },
  };
}

/** Whether a signature answers what a search finds, rather than what a dense part ranks. */
function searches({ steps }: SignatureProgram): boolean {
  return steps.some(({ kind }) => kind === "topK");
}

/** The conditions for some of the queries of a request. */
function chosenOf(
  { exclude, include, filters, ...wanted }: SearchConditions,
  chosen: readonly number[],
): SearchConditions {
  const of = <List>(lists: readonly List[]): readonly List[] =>
    lists.length > 1 ? chosen.map((query) => lists[query]!) : lists;
  return { exclude: of(exclude), include: of(include), filters: of(filters), ...wanted };
}

const ROW_SPEC = { name: ROW_COLUMN, type: "integer", isList: false } as const;

/** The conditions of a request together with a mask. */
function withMask(
  conditions: SearchConditions,
  admits: readonly Filter[],
  { table, queries }: { readonly table: CandidateTable; readonly queries: number },
): SearchConditions {
  const masks = boundMasks(admits, table);
  return { ...conditions, filters: bothOf(conditions.filters, masks, queries) };
}

function boundMasks(admits: readonly Filter[], { masks = [] }: CandidateTable): BoundFilter[] {
  return admits.map((each) => boundFilter(each, [...masks, ROW_SPEC]));
}

function bothOf(
  filters: readonly BoundFilter[],
  masks: readonly BoundFilter[],
  queries: number,
): readonly BoundFilter[] {
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

function broken(what: string): WinnowError {
  return new WinnowError("INTERNAL", `The program's ${what} does not fit its tables`);
}
