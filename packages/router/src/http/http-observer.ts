// The events of HTTP requests that an observer, such as the metrics, receives. An observer must not throw.

import type { GiveUpReason } from "@winnow/core";
import type { Degradation, UnknownUsers } from "../predictor.ts";

/**
 * `resting`: a connection without a request was cut for a new one; `refused`: a new one found no place;
 * `handshake`: a TLS handshake failed.
 */
export type RoomLoss = "resting" | "refused" | "handshake";

/** One request that has been answered. */
export interface AnsweredRequest {
  /** The id of the request: the client's `X-Request-Id`, or one made here. */
  readonly requestId: string;
  /** What was asked for: `predict`, `status`, `metadata`, `malformed`, … */
  readonly api: string;
  /** The model as the URL names it, known or not; `undefined` where the URL names none. */
  readonly model: string | undefined;
  /** The version that answered, as in the response header; `undefined` where none did. */
  readonly version: string | undefined;
  /** The id of the API key that was presented. */
  readonly key?: string | undefined;
  readonly status: number;
  /** Canonical gRPC code name; `OK` for 200. */
  readonly code: string;
  /** Instances predicted for; 0 otherwise. */
  readonly instances: number;
  /** Partitions answered ÷ partitions asked; 1 where none were asked. */
  readonly coverage: number;
  /** Number of keys of the body that have no meaning. */
  readonly ignoredKeys?: number;
  /** What the answer of a pipeline or an experiment lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  /** Of a pipeline: users that its model does not know. */
  readonly unknownUsers?: readonly UnknownUsers[] | undefined;
  /** Length of the body as the client announced it; `undefined` where it did not. */
  readonly requestBytes?: number | undefined;
  readonly answerBytes: number;
  readonly elapsedMs: number;
  /** Ms by stage, for the stages that were reached. */
  readonly stages?: ReadonlyMap<string, number>;
}

/** Receives the events of requests. */
export interface HttpObserver {
  /** A request was answered, successfully or not. */
  answered(request: AnsweredRequest): void;
  /**
   * A body was not read to its end or an answer not written, because the client was slow or memory short
   * (`queue`: too many large bodies wait for a thread); or a connection was cut or refused for lack of
   * places, or failed in its TLS handshake.
   */
  gaveUp?(what: "body" | "answer" | "connection", reason: GiveUpReason | "queue" | RoomLoss): void;
}

/** The metrics page of this process. */
export interface MetricsPage {
  /** The metrics in Prometheus' text format. */
  text(): Promise<string>;
}

/** A file of the console. */
export interface PageFile {
  readonly contentType: string;
  readonly body: Buffer;
  /** The content, compressed by gzip. */
  readonly gzip: Buffer;
}

/** The console's files by path; the page itself is at `/console/`. */
export type PageFiles = ReadonlyMap<string, PageFile>;

/** Gives the report of the cluster, as JSON. */
export interface ReportPage {
  json(): Buffer;
}
