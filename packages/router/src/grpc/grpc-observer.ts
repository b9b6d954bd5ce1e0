// The calls of the gRPC side, as an observer hears of them (metrics do). An observer must not throw.

import type { GiveUpReason } from "@winnow/core";
import type { Degradation } from "../predictor.ts";

/** One call that has been answered. */
export interface AnsweredCall {
  /** Its id: the client's `x-request-id` in the metadata, or one made here. */
  readonly requestId: string;
  /** As TensorFlow Serving's metrics name it: `Predict`, `GetModelMetadata`, … */
  readonly api: string;
  /** As the request names it, known or not; `undefined` where it names none. */
  readonly model: string | undefined;
  /** Canonical code name; `OK` for success. */
  readonly code: string;
  /** Instances predicted for; 0 otherwise. */
  readonly instances: number;
  /** Of a pipeline: what the answer lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  readonly requestBytes: number;
  readonly answerBytes: number;
  readonly elapsedMs: number;
  /** Ms by stage, as far as it came. */
  readonly stages?: ReadonlyMap<string, number>;
}

/** Hears of calls. */
export interface GrpcObserver {
  /** A call was answered, whatever the answer. */
  answered(call: AnsweredCall): void;
  /**
   * A request was not read to its end, or an answer not written: the client is slow, or room short. A
   * connection did not come to be because its handshake of TLS failed.
   */
  gaveUp?(what: "body" | "answer" | "connection", reason: GiveUpReason | "handshake"): void;
}
