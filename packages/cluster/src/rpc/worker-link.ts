// The interface between a worker's control code and the network: a router as the worker sees it. It
// is gRPC in production (`shard-server.ts`), a fake network in the simulator.

import type { Incarnation, WinnowError } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { MemberNews, Pong, WorkerQuery, WorkerReply } from "./frames/frames.ts";
import type { OrderMessage, ProgramQuery } from "./worker-connector.ts";

/** One router's stream. Sending never fails and never blocks; a closed link drops what is sent. */
export interface WorkerLink {
  readonly routerId: string;
  /** Replies of one event-loop turn share a frame. A router that does not read is disconnected. */
  reply(reply: WorkerReply): void;
  /** Runs something once the replies so far are on their way, as far as this process is concerned. */
  afterReplies(run: () => void): void;
  pong(pong: Pong): void;
  /** Sends the new state. */
  announce(announcement: Announcement): void;
  /** Sends where other workers are, if the router asked for it in its hello. */
  tellMembers(news: readonly MemberNews[]): void;
  /** Asks the router to send nothing new and to end the stream once its replies are in. */
  drain(): void;
  /** Ends the stream at once. */
  close(): void;
  /** Ends the stream with an error: the router has violated the protocol. */
  refuse(error: WinnowError): void;
}

/** Receives the events of a router's stream. Nothing is called after `onClose`. */
export interface LinkHandlers {
  /**
   * The queries' lengths and counts are checked to be consistent. That their ids are unused, and
   * that they fit a table and its dim, is not checked.
   */
  onQueries(queries: readonly WorkerQuery[]): void;
  /** The router needs no answer to this query; the id may be unknown. */
  onCancel(id: number): void;
  /** `wantsHeard`: the pong should list the workers that this worker hears. */
  onPing(sequence: number, wantsHeard: boolean, inDoubt: boolean): void;
  /** The router asks this process to number itself above `incarnation` (`succession.ts`). */
  onPredecessor(incarnation: Incarnation): void;
  /** The stream is over: queries of this link need no answer. Called exactly once. */
  onClose(): void;
}

/** An order to drain (`orders/drain-order.ts`) as it came. */
export interface ReceivedDrain {
  readonly signed: string;
  /** Whether only members (by their certificates) or processes of this machine can have sent it. */
  readonly isFromMember: boolean;
}

/** What a worker serves over the network. */
export interface WorkerService {
  /** The current state: the first frame of every stream, and the answer to Describe. */
  announcement(): Announcement;
  /** A router has said hello and has been sent the announcement. */
  accept(link: WorkerLink): LinkHandlers;
  /** The bytes of `encodeProgramPackage`. @throws WinnowError NOT_FOUND */
  program(query: ProgramQuery): Promise<Uint8Array>;
  /**
   * Follows an order, or checks whether it would follow a draft.
   * @throws WinnowError if it does not
   */
  followOrder(message: OrderMessage): Promise<void>;
  /** The highest models order that this worker knows, signed; `undefined`: none. */
  knownOrder(): string | undefined;
  /** Begins to drain and exit, as on SIGTERM. @throws WinnowError if the order is not followed */
  drainOnOrder(order: ReceivedDrain): void;
}
