// The seam between worker control code and the network: a router as the worker sees it. gRPC in
// production (`shard-server.ts`), a fake network in the simulator.

import type { Incarnation, WinnowError } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { MemberNews, Pong, WorkerQuery, WorkerReply } from "./frames.ts";
import type { OrderMessage, ProgramQuery } from "./worker-connector.ts";

/** One router's stream. Sending never fails and never blocks; what a closed link is given is dropped. */
export interface WorkerLink {
  readonly routerId: string;
  /** Replies of one turn leave in one frame. A router that does not read is disconnected. */
  reply(reply: WorkerReply): void;
  pong(pong: Pong): void;
  /** Tells the new state. */
  announce(announcement: Announcement): void;
  /** Tells where other workers are, if the router wants to know. */
  tellMembers(news: readonly MemberNews[]): void;
  /** Asks the router to send nothing new and to end the stream once its replies are in. */
  drain(): void;
  /** Ends the stream at once. */
  close(): void;
  /** Ends the stream with an error: the router has sent what no router sends. */
  refuse(error: WinnowError): void;
}

/** What a router's stream tells the worker. Nothing is called after `onClose`. */
export interface LinkHandlers {
  /**
   * Frames are checked: lengths and counts are consistent. Which ids are under way, and what table and
   * dim are, is not known here.
   */
  onQueries(queries: readonly WorkerQuery[]): void;
  /** The router does not wait for this query any more; unknown ids are harmless. */
  onCancel(id: number): void;
  /** `wantsHeard`: the pong is to say whom this worker hears. */
  onPing(sequence: number, wantsHeard: boolean): void;
  /** The router takes this process for the one that follows a higher number (`succession.ts`). */
  onPredecessor(incarnation: Incarnation): void;
  /** The stream is over: queries of this link need no answer. Called exactly once. */
  onClose(): void;
}

/** What a worker offers to the network. */
export interface WorkerService {
  /** The current state: sent first on every stream, and answers Describe. */
  announcement(): Announcement;
  /** A router has said hello and has been sent the announcement. */
  accept(link: WorkerLink): LinkHandlers;
  /** The bytes of `encodeProgramPackage`. @throws WinnowError NOT_FOUND */
  program(query: ProgramQuery): Promise<Uint8Array>;
  /** Follows a models order, or only says whether it would. @throws WinnowError why it does not */
  followOrder(message: OrderMessage): Promise<void>;
  /** The highest models order known here, signed; `undefined`: none. */
  knownOrder(): string | undefined;
}
