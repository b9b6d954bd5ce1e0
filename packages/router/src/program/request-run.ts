// One request while it runs on one version: on one generation of the table at a time, within the request's
// context. Requests of clients and warm-up requests differ in nothing else.

import type { SignatureProgram, Tensor, VersionKey } from "@winnow/core";
import type { RoutingTable } from "@winnow/cluster";
import type { Admitted } from "../admission/admission.ts";
import type { SearchConditions } from "../admission/search-cost.ts";
import type { ItemRows } from "../item-rows.ts";
import type { LoadedProgram } from "../versions/loaded-program.ts";
import type { PredictRequest } from "../predictor.ts";
import type { RequestContext } from "../request-context.ts";
import type { RequestScope } from "../scatter/scatter-question.ts";

/** The terms on which a request runs. */
export interface RunTerms {
  /** Replaces the k of every search. */
  readonly k?: number | undefined;
  readonly conditions: SearchConditions;
  readonly admitted: Pick<Admitted, "dueMs" | "answered">;
}

/**
 * A request on one version: the state that all its steps share. It is made once for a run and passed by
 * reference, to the scatter as a `RequestScope`.
 */
export class RequestRun implements RequestScope {
  readonly loaded: LoadedProgram;
  readonly version: VersionKey;
  readonly signature: SignatureProgram;
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly context: RequestContext;
  readonly k: number | undefined;
  readonly conditions: SearchConditions;
  readonly allowPartial: boolean;
  readonly itemRows: ItemRows | undefined;
  table: RoutingTable;
  partitionsAsked = 0;
  partitionsAnswered = 0;
  /** Attributes of the items that a search returned, if the request wants any. */
  described: Tensor | undefined;
  readonly #admitted: RunTerms["admitted"];
  /** Absent until the first one is lost. */
  #lostWorkers: Set<string> | undefined;

  /** Begins on the generation of `table`. */
  constructor(
    { loaded, version, table }: Pick<RequestRun, "loaded" | "version" | "table">,
    request: PredictRequest,
    { k, conditions, admitted }: RunTerms,
  ) {
    this.loaded = loaded;
    this.version = version;
    this.table = table;
    this.signature = request.signature;
    this.inputs = request.inputs;
    this.context = request.context;
    this.allowPartial = request.allowPartial === true;
    this.itemRows = request.itemRows;
    this.k = k;
    this.conditions = conditions;
    this.#admitted = admitted;
  }

  get deadlineMs(): number {
    return this.context.deadlineMs;
  }

  get dueMs(): number {
    return this.#admitted.dueMs;
  }

  get lostWorkers(): Set<string> {
    return (this.#lostWorkers ??= new Set());
  }

  /** Partitions answered ÷ partitions asked, over all searches. */
  get coverage(): number {
    return this.partitionsAsked === 0 ? 1 : this.partitionsAnswered / this.partitionsAsked;
  }

  noteStage(stage: "queue" | "scatter" | "merge", elapsedMs: number): void {
    this.context.noteStage(stage, elapsedMs);
  }

  noteWorker(queueMs: number, computeMs: number): void {
    this.context.noteLongest("workerQueue", queueMs);
    this.context.noteLongest("scan", computeMs);
  }

  answered(rows: number): void {
    this.#admitted.answered(rows);
  }
}
