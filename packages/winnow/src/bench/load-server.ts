// A server that load is sent to: how it is reached, how requests to it are made, and how its answers are read.

import type { Clock } from "@winnow/core";
import type { RestTrust } from "../access/rest-client.ts";
import type { AnswerRecords, OutputSpec } from "../oracle/answer-records.ts";
import type { LoadAnswer, LoadConnection } from "./load-connection.ts";
import type { PreparedRequest } from "./load-run.ts";
import type { RequestPool } from "./request-pool.ts";

/** A server, whatever it speaks. */
export interface LoadServer {
  readonly url: string;
  connect(): LoadConnection;
  /** @throws WinnowError INVALID_ARGUMENT for requests that cannot be made of a pool */
  prepared(pool: RequestPool): readonly PreparedRequest[];
  /** An answer in rows, and which version gave it. */
  read(answer: LoadAnswer, outputs: readonly OutputSpec[]): ReadAnswer;
}

/** What an answer says. */
export interface ReadAnswer {
  readonly records: AnswerRecords;
  readonly version: string | undefined;
}

/** How a server is reached. */
export interface LoadServerOptions {
  readonly url: string;
  readonly trust: RestTrust;
  readonly clock: Clock;
  readonly timeoutMs: number;
}
