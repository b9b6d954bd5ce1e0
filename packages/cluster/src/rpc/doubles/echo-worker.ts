// A worker for tests: it answers look-ups with the row number that they ask for, and records all
// that reached it for the test to read.

import { WinnowError } from "@winnow/core";
import { announced } from "../../fixtures/announcement-words.ts";
import { rowReply } from "../fixtures/any-frames.ts";
import type { WorkerQuery } from "../frames/frames.ts";
import type { OrderMessage } from "../worker-connector.ts";
import type { LinkHandlers, ReceivedDrain, WorkerLink, WorkerService } from "../worker-link.ts";

/** A worker that answers at once, unless `isHolding`, and records what reached it. */
export class EchoWorker implements WorkerService {
  readonly links: WorkerLink[] = [];
  readonly batches: (readonly WorkerQuery[])[] = [];
  readonly cancelled: number[] = [];
  readonly predecessors: number[] = [];
  isHolding = false;
  closed = 0;
  /** Orders and drafts taken; the text "never" is refused. */
  readonly orders: OrderMessage[] = [];
  order: string | undefined;
  /** Orders to drain that were taken; the text "never" is refused. */
  readonly drains: string[] = [];
  /** Whether each of them came from a member. */
  readonly drainsOfMembers: boolean[] = [];
  programBytes: Uint8Array = new Uint8Array(0);
  readonly #id: string;

  constructor(id = "w0") {
    this.#id = id;
  }

  announcement(): ReturnType<WorkerService["announcement"]> {
    return announced({ id: this.#id, versions: [{ version: 1 }] });
  }

  accept(link: WorkerLink): LinkHandlers {
    this.links.push(link);
    return {
      onQueries: (queries) => {
        this.batches.push(queries);
        if (!this.isHolding) for (const query of queries) link.reply(rowReply(query));
      },
      onCancel: (id) => this.cancelled.push(id),
      onPing: (sequence) => link.pong({ sequence, queueRows: 7, progress: 8, stalled: false }),
      onPredecessor: (incarnation) => this.predecessors.push(incarnation),
      onClose: () => {
        this.closed += 1;
      },
    };
  }

  program: WorkerService["program"] = () => {
    if (this.programBytes.length > 0) return Promise.resolve(this.programBytes);
    return Promise.reject(new WinnowError("NOT_FOUND", "Nobody here holds movies/1"));
  };

  async followOrder(message: OrderMessage): Promise<void> {
    if (message.signed === "never") {
      throw new WinnowError("FAILED_PRECONDITION", "This worker never holds that");
    }
    this.orders.push(message);
  }

  drainOnOrder({ signed, isFromMember }: ReceivedDrain): void {
    if (signed === "never") throw new WinnowError("PERMISSION_DENIED", "Nobody may drain this");
    this.drains.push(signed);
    this.drainsOfMembers.push(isFromMember);
  }

  knownOrder(): string | undefined {
    return this.order;
  }
}
