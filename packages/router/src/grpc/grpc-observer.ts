// The events of gRPC calls that an observer, such as the metrics, receives. An observer must not throw.

import type { GiveUpReason } from "@winnow/core";
import type { Degradation, UnknownUsers } from "../predictor.ts";

/** One call that has been answered. */
export interface AnsweredCall {
  /** The id of the request: the client's `x-request-id` in the metadata, or one made here. */
  readonly requestId: string;
  /** The method as TensorFlow Serving's metrics name it: `Predict`, `GetModelMetadata`, … */
  readonly api: string;
  /** The model as the request names it, known or not; `undefined` where it names none. */
  readonly model: string | undefined;
  /** The version that answered, of predictions. */
  readonly version?: string | undefined;
  /** The id of the key with which the call was let in. */
  readonly key?: string | undefined;
  /** Canonical code name; `OK` for success. */
  readonly code: string;
  /** Instances predicted for; 0 otherwise. */
  readonly instances: number;
  /** What the answer of a pipeline or an experiment lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  /** Of a pipeline: users that its model does not know. */
  readonly unknownUsers?: readonly UnknownUsers[] | undefined;
  readonly requestBytes: number;
  readonly answerBytes: number;
  readonly elapsedMs: number;
  /** Ms by stage, for the stages that were reached. */
  readonly stages?: ReadonlyMap<string, number>;
}

/** Receives the events of calls. */
export interface GrpcObserver {
  /** A call was answered, successfully or not. */
  answered(call: AnsweredCall): void;
  /**
   * A request was not read to its end or an answer not written, because the client was slow or memory short;
   * or a connection failed in its TLS handshake.
   */
  gaveUp?(what: "body" | "answer" | "connection", reason: GiveUpReason | "handshake"): void;
}
