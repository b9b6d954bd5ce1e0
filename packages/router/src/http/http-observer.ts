// The requests of the HTTP side, as an observer hears of them (metrics do). An observer must not throw.

import type { GiveUpReason } from "@winnow/core";
import type { Degradation } from "../predictor.ts";

/** A connection was cut, or a new one refused, for want of room; or its handshake of TLS failed. */
export type RoomLoss = "resting" | "refused" | "handshake";

/** One request that has been answered. */
export interface AnsweredRequest {
  /** Its id: the client's `X-Request-Id`, or one made here. */
  readonly requestId: string;
  /** The door it knocked at: `predict`, `status`, `metadata`, `malformed`, … */
  readonly api: string;
  /** As the URL names it, known or not; `undefined` where the URL names none. */
  readonly model: string | undefined;
  /** The version that answered, as its header says; `undefined` where none did. */
  readonly version: string | undefined;
  /** The id of the key that let it in. */
  readonly key?: string | undefined;
  readonly status: number;
  /** Canonical gRPC code name; `OK` for 200. */
  readonly code: string;
  /** Instances predicted for; 0 otherwise. */
  readonly instances: number;
  /** Partitions answered ÷ partitions asked; 1 where none were asked. */
  readonly coverage: number;
  /** Keys of a body that mean nothing, a few. */
  readonly ignoredKeys?: number;
  /** Of a pipeline: what the answer lacks. */
  readonly degradations?: readonly Degradation[] | undefined;
  /** Of the body as the client announced it; `undefined` where it did not. */
  readonly requestBytes?: number | undefined;
  readonly answerBytes: number;
  readonly elapsedMs: number;
  /** Ms by stage, as far as it came. */
  readonly stages?: ReadonlyMap<string, number>;
}

/** Hears of requests. */
export interface HttpObserver {
  /** A request was answered, whatever the answer. */
  answered(request: AnsweredRequest): void;
  /**
   * A body was not read to its end, or an answer was not written: the client is slow, or memory short;
   * `queue`: too many large bodies wait for a thread. A connection was cut because others had no room,
   * refused because none was left, or did not come to be because its handshake of TLS failed.
   */
  gaveUp?(what: "body" | "answer" | "connection", reason: GiveUpReason | "queue" | RoomLoss): void;
}

/** The metrics page of this process. */
export interface MetricsPage {
  /** Prometheus text exposition. */
  text(): Promise<string>;
}

/** A file of the console. */
export interface PageFile {
  readonly contentType: string;
  readonly body: Buffer;
  /** The content, packed by gzip. */
  readonly gzip: Buffer;
}

/** The console's files by path, with that of its page: `/console/`. */
export type PageFiles = ReadonlyMap<string, PageFile>;

/** The report of the cluster, as JSON. */
export interface ReportPage {
  json(): Buffer;
}
