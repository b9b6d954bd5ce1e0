// The spans of a worker for one query of a traced request: the query, its wait for the device, and the scan
// or gather that it shared with the other queries of its batch.
//
//   query  ├──────────────────────────────────┤
//   queue  ├────────────┤
//   scan                ├────────────────────┤   batch_queries, batch_rows

import type { WorkerAnswer, WorkerQuery } from "@winnow/cluster";
import type { Tracer } from "@winnow/core";
import type { BatchedAnswer } from "./query-batch.ts";
import type { Outcome } from "./query-lane.ts";

/** How a query has ended. */
export interface EndedQuery {
  readonly outcome: Outcome<BatchedAnswer>;
  readonly answer: WorkerAnswer;
  readonly endMs: number;
}

/** Records spans for a query that has ended, if it names the span that asked. */
export function traceQuery(
  tracer: Tracer,
  { ask, table, partitions, version, trace }: WorkerQuery,
  { outcome, answer, endMs }: EndedQuery,
): void {
  const timing = outcome.kind === "answer" ? timesOf(outcome) : { queueMs: 0, computeMs: 0 };
  const startMs = endMs - timing.queueMs - timing.computeMs;
  const span = tracer.begin({
    name: `worker ${ask.kind}`,
    startMs,
    parent: trace,
    attributes: {
      "winnow.model": version.model,
      "winnow.version": String(version.version),
      "winnow.table": table,
      "winnow.partitions": partitions.length,
      "winnow.rows": ask.kind === "topK" ? ask.queries : ask.keys.data.length,
    },
  });
  if (span === undefined) return;
  if (outcome.kind === "answer") {
    const startedMs = startMs + timing.queueMs;
    span.child("queue", startMs).end(startedMs);
    const { queries, rows } = outcome.answer.batch;
    span
      .child(ask.kind === "topK" ? "scan" : "gather", startedMs, {
        "winnow.batch_queries": queries,
        "winnow.batch_rows": rows,
      })
      .end(endMs);
  }
  span.end(endMs, undefined, answer.kind === "failure" ? answer.reason : undefined);
}

function timesOf({ queueMs, answer }: Extract<Outcome<BatchedAnswer>, { kind: "answer" }>): {
  readonly queueMs: number;
  readonly computeMs: number;
} {
  return { queueMs: queueMs + answer.waitUs / 1000, computeMs: answer.computeUs / 1000 };
}
