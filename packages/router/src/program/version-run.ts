// One request run on one version: the program's steps on one generation of the table, within its
// context. Clients' requests and warm-up requests differ in nothing else.

import type { SignatureProgram, Tensor, VersionKey } from "@winnow/core";
import { runProgram } from "@winnow/core";
import type { RoutingTable } from "@winnow/cluster";
import type { Admitted } from "../admission/admission.ts";
import type { BoundFilter } from "../admission/search-cost.ts";
import type { LoadedProgram } from "../versions/loaded-program.ts";
import type { Prediction } from "../predictor.ts";
import { executorsOf } from "./program-execution.ts";
import type { RequestContext } from "../request-context.ts";
import type { RequestScope } from "../scatter/scatter-question.ts";
import type { TableQueryParts } from "../scatter/table-query.ts";

/** A request, the version and generation it runs on, and its context. */
export interface VersionRun {
  readonly loaded: LoadedProgram;
  readonly version: VersionKey;
  /** The generation to begin with. */
  readonly table: RoutingTable;
  readonly signature: SignatureProgram;
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly k?: number | undefined;
  readonly exclude?: readonly Tensor[];
  readonly include?: readonly Tensor[];
  readonly filters?: readonly BoundFilter[];
  readonly attributes?: readonly string[];
  readonly allowPartial?: boolean;
  /** Its admission; a run without one (a warm-up) is due at once and counts for nothing. */
  readonly admitted?: Admitted;
  readonly context: RequestContext;
}

/** Runs it. @throws WinnowError as `runProgram` does; the signal's reason once the context is aborted */
export async function runOnVersion(parts: TableQueryParts, run: VersionRun): Promise<Prediction> {
  const { loaded, version, table, signature, inputs, k, context } = run;
  const { deadlineMs, signal } = context;
  signal.throwIfAborted();
  const scope: RequestScope = {
    version,
    deadlineMs,
    allowPartial: run.allowPartial === true,
    dueMs: run.admitted?.dueMs ?? parts.environment.clock.nowMs(),
    answered: (rows) => run.admitted?.answered(rows),
    lostWorkers: new Set(),
    table,
    partitionsAsked: 0,
    partitionsAnswered: 0,
  };
  let described: Tensor | undefined;
  const { exclude = [], include = [], filters = [], attributes = [] } = run;
  const wanted = { exclude, include, filters, attributes };
  const executors = executorsOf(parts, {
    loaded,
    scope,
    context,
    ...wanted,
    described: (found) => {
      described = found;
    },
  });
  const outputs = await runProgram(signature, { inputs, signal, k }, executors).catch(
    (error: unknown) => {
      // What the work failed with once it was told to stop is a consequence; the reason is the cause.
      throw signal.aborted ? signal.reason : error;
    },
  );
  const { partitionsAsked, partitionsAnswered } = scope;
  const coverage = partitionsAsked === 0 ? 1 : partitionsAnswered / partitionsAsked;
  return { version, outputs, coverage, ...(described && { attributes: described }) };
}
