// The harness's side of the load: starts its process, notifies it of events, and gets the figures.

import type { AnswerClass, PublishedVersion } from "../answers/answer-check.ts";
import { ChildScript } from "../processes/child-script.ts";
import type { LoadFigures } from "./load-windows.ts";
import type { ModelName } from "../answers/model-content.ts";

/** Messages to the load. */
export type LoadOrder =
  | {
      readonly type: "start";
      readonly routers: readonly { readonly rest: number; readonly grpc: number }[];
      readonly seed: number;
      readonly perSecond: number;
      /** A request without an answer for this long counts as hanging. */
      readonly requestMsMax: number;
      /** Whether a request whose connection broke is sent again, once, to another router. */
      readonly resends: boolean;
      readonly published: readonly PublishedVersion[];
      readonly pins: Readonly<Partial<Record<ModelName, number>>>;
    }
  | { readonly type: "window"; readonly name: string }
  | { readonly type: "inject"; readonly name: string }
  | { readonly type: "rate"; readonly perSecond: number }
  | { readonly type: "burst"; readonly count: number }
  | {
      readonly type: "published";
      readonly published: readonly PublishedVersion[];
      readonly pins: Readonly<Partial<Record<ModelName, number>>>;
    }
  | { readonly type: "stop" };

/** Messages from the load. */
export type LoadReport =
  | { readonly type: "ready" }
  | {
      readonly type: "progress";
      readonly counts: Readonly<Record<AnswerClass, number>>;
      readonly requests: number;
      readonly pending: number;
    }
  | { readonly type: "figures"; readonly figures: LoadFigures };

const STOPPED_WITHIN_MS = 60_000;

/** A running load. */
export class LoadGenerator {
  readonly #child: ChildScript<LoadOrder, LoadReport>;

  private constructor(child: ChildScript<LoadOrder, LoadReport>) {
    this.#child = child;
  }

  /** Starts the process and the load. */
  static async start(order: Omit<Extract<LoadOrder, { type: "start" }>, "type">) {
    const child = new ChildScript<LoadOrder, LoadReport>("load/load-process.ts");
    await child.next("ready", STOPPED_WITHIN_MS);
    child.send({ type: "start", ...order });
    return new LoadGenerator(child);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Requests due from now on belong to this window. */
  openWindow(name: string): void {
    this.#child.send({ type: "window", name });
  }

  /** A fault is injected, or removed in a way that may also disturb. */
  inject(name: string): void {
    this.#child.send({ type: "inject", name });
  }

  setRate(perSecond: number): void {
    this.#child.send({ type: "rate", perSecond });
  }

  /** Sends so many requests at once. */
  burst(count: number): void {
    this.#child.send({ type: "burst", count });
  }

  tellPublished(order: Omit<Extract<LoadOrder, { type: "published" }>, "type">): void {
    this.#child.send({ type: "published", ...order });
  }

  /** Ends the load, waits for every answer, and gives what it showed. */
  async stop(): Promise<LoadFigures> {
    this.#child.send({ type: "stop" });
    const { figures } = await this.#child.next("figures", STOPPED_WITHIN_MS);
    await this.#child.ended();
    return figures;
  }

  /** Ends the process without figures. */
  abandon(): void {
    this.#child.kill();
  }
}
