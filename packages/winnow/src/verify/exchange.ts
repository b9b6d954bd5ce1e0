// A question to a server and its outcome, for REST and gRPC alike.

import { type Clock, sleep } from "@winnow/core";
import type { Difference } from "../oracle/answer-comparison.ts";
import type {
  AnswerFormat,
  AnswerRecord,
  AnswerRecords,
  OutputSpec,
} from "../oracle/answer-records.ts";
import type { ToldBeside } from "../oracle/reference.ts";
import type { PlannedRequest } from "../questions/request-plan.ts";

/** A model and the version that must answer; `undefined`: any version. */
export interface AskedModel {
  readonly model: string;
  readonly version: number | undefined;
}

/** What the files say about a question. */
export type Expected =
  | {
      readonly kind: "records";
      readonly records: readonly AnswerRecord[];
      readonly beside: ToldBeside;
    }
  | { readonly kind: "refusal"; readonly text: string };

/** A question, ready to be sent and judged. */
export interface Question {
  readonly body: string;
  /** What the body was made of; absent if it comes from a file. */
  readonly request?: PlannedRequest;
  readonly format: AnswerFormat;
  readonly instances: number;
  readonly outputs: readonly OutputSpec[];
  /** Absent if only servers are compared. */
  readonly expected?: Expected;
  /** Says where the item of a difference is in the files. */
  readonly noteOf?: ((difference: Difference) => string | undefined) | undefined;
}

/** What a server sends beside its answer. */
interface Told extends ToldBeside {
  readonly version: string | undefined;
}

/** The outcome of a question. */
export type ServerReply =
  | { readonly kind: "answered"; readonly records: AnswerRecords; readonly told: Told }
  /** The server says that the request is at fault. */
  | { readonly kind: "refused"; readonly text: string }
  | { readonly kind: "missing"; readonly text: string };

/** A server that answers predictions. */
export interface PredictServer {
  readonly url: string;
  /** Asks once; gives up when interrupted. */
  predict(asked: AskedModel, question: Question, signal: AbortSignal): Promise<ServerReply>;
}

/** The outcome of one attempt. After `passing` there is another attempt, after a longer wait. */
export type Attempt = ServerReply | { readonly kind: "passing"; readonly text: string };

const ATTEMPTS_MAX = 6;
const FIRST_WAIT_MS = 200;

/** Tries until there is an answer that will not change. If there is none in the end, it counts as missing. */
export async function askAgain(
  clock: Clock,
  signal: AbortSignal,
  attempt: () => Promise<Attempt>,
): Promise<ServerReply> {
  let last = "";
  for (let made = 0; made < ATTEMPTS_MAX; made += 1) {
    if (made > 0) {
      await sleep(clock, FIRST_WAIT_MS * 2 ** (made - 1), signal).catch(() => undefined);
    }
    if (signal.aborted) return { kind: "missing", text: "interrupted" };
    const reply = await attempt();
    if (reply.kind !== "passing") return reply;
    last = reply.text;
  }
  return { kind: "missing", text: last };
}
