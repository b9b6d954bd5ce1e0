// A router's stream at the worker, on gRPC. Replies of one turn of the event loop share a frame. A
// router that does not read its replies is cut off before they fill the worker's memory. A router
// that sends no frame, not even a ping, has vanished and is cut off, as its connection may never
// break.
//
//   waiting for hello ── hello ──▶ open ── router ends, breaks off, ──▶ closed
//                                          does not read, is silent

import type { ServerDuplexStream } from "@grpc/grpc-js";
import { WinnowError, grpcStatusOf, setGraceTimer, toWinnowError } from "@winnow/core";
import type { Clock, GraceTimer, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { decodeRouterFrame, encodeWorkerFrame } from "./frames/frame-codec.ts";
import { FRAME_REPLIES_MAX, MEMBERS_PER_FRAME } from "./frames/frame-limits.ts";
import type { MemberNews, Pong, RouterFrame, WorkerFrame, WorkerReply } from "./frames/frames.ts";
import { cutDetails } from "./frames/malformed-frame.ts";
import { replyBytes } from "./frames/reply-codec.ts";
import type { LinkHandlers, WorkerLink, WorkerService } from "./worker-link.ts";

/** Limits of a link. */
export interface RouterLinkSettings {
  /** Bytes of replies that may wait for the router to read. */
  readonly unreadBytesMax: number;
  /** Largest single reply; a larger one is answered RESOURCE_EXHAUSTED. */
  readonly replyBytesMax: number;
  /** A router that has sent no frame for this long is disconnected, after at most twice this. */
  readonly silentMs: number;
  /** A router that has not sent a hello for this long is disconnected. */
  readonly helloMs: number;
}

/** What a link is made with. */
export interface RouterLinkParts {
  readonly service: WorkerService;
  readonly clock: Clock;
  readonly onEnd: (link: RouterLink) => void;
}

/** A worker at the other side of a stream may be silent for this many times as long as a router. */
const SILENT_WORKER_FACTOR = 20;
/** A worker has a stream of each router and member, and at rest wakes for each of these slices. */
const SILENCE_SLICES = 4;
/** A frame takes further replies up to this many bytes. */
const FRAME_BYTES = 1024 * 1024;

interface SizedReply {
  readonly reply: WorkerReply;
  readonly bytes: number;
}

/** One router's stream. */
export class RouterLink implements WorkerLink {
  readonly #call: ServerDuplexStream<Buffer, Buffer>;
  readonly #parts: RouterLinkParts;
  readonly #settings: RouterLinkSettings;
  #routerId = "";
  #wantsMembers = false;
  /** Whether the other side is a worker, which pings seldom. */
  #isWorker = false;
  #handlers: LinkHandlers | undefined;
  #waiting: SizedReply[] = [];
  #waitingBytes = 0;
  /** What runs once the waiting replies have been written to the socket. */
  #afterReplies: (() => void)[] = [];
  #unsentState: Announcement | undefined;
  /** The latest unsent news of each member; bounded by the number of members. */
  readonly #unsentMembers = new Map<WorkerId, MemberNews>();
  #isFlushPlanned = false;
  #isBlocked = false;
  #isClosed = false;
  /** Whether a frame has come since the silence timer was set. */
  #isHeard = false;
  #silenceTimer: GraceTimer;

  constructor(
    call: ServerDuplexStream<Buffer, Buffer>,
    parts: RouterLinkParts,
    settings: RouterLinkSettings,
  ) {
    this.#call = call;
    this.#parts = parts;
    this.#settings = settings;
    this.#silenceTimer = setGraceTimer(parts.clock, { delayMs: settings.helloMs }, () =>
      this.#fail(new WinnowError("DEADLINE_EXCEEDED", "A stream must begin with a hello")),
    );
    call.on("data", (bytes: Buffer) => this.#receive(bytes));
    call.on("drain", () => this.#unblock());
    call.on("end", () => this.close());
    call.on("cancelled", () => this.#end());
    call.on("error", () => this.#end());
    call.on("close", () => this.#end());
  }

  get routerId(): string {
    return this.#routerId;
  }

  reply(reply: WorkerReply): void {
    if (this.#isClosed) return;
    const bytes = replyBytes(reply);
    const sized = bytes <= this.#settings.replyBytesMax ? { reply, bytes } : tooLarge(reply, bytes);
    this.#waiting.push(sized);
    this.#waitingBytes += sized.bytes;
    if (this.#isBlocked && this.#waitingBytes > this.#settings.unreadBytesMax) {
      return this.#fail(new WinnowError("RESOURCE_EXHAUSTED", "The router does not read replies"));
    }
    if (this.#isFlushPlanned || this.#isBlocked) return;
    this.#isFlushPlanned = true;
    setImmediate(() => {
      this.#isFlushPlanned = false;
      this.#flush();
    });
  }

  afterReplies(run: () => void): void {
    if (this.#waiting.length === 0) run();
    else this.#afterReplies.push(run);
  }

  pong(pong: Pong): void {
    if (!this.#isBlocked) this.#send({ kind: "pong", pong });
  }

  announce(announcement: Announcement): void {
    // Under backpressure only the latest state is kept for the router.
    if (this.#isBlocked) this.#unsentState = announcement;
    else this.#send({ kind: "state", announcement });
  }

  tellMembers(news: readonly MemberNews[]): void {
    if (!this.#wantsMembers) return;
    for (const member of news) this.#unsentMembers.set(member.workerId, member);
    this.#sendMembers();
  }

  drain(): void {
    this.#send({ kind: "drain" });
  }

  close(): void {
    if (this.#isClosed) return;
    this.#flush();
    this.#call.end();
    this.#end();
  }

  refuse(error: WinnowError): void {
    this.#fail(error);
  }

  #send(frame: WorkerFrame, onWritten?: () => void): void {
    if (this.#isClosed) return;
    if (!this.#call.write(encodeWorkerFrame(frame), onWritten)) this.#isBlocked = true;
  }

  #sendMembers(): void {
    while (this.#unsentMembers.size > 0 && !this.#isBlocked && !this.#isClosed) {
      const members = [...this.#unsentMembers.values()].slice(0, MEMBERS_PER_FRAME);
      for (const { workerId } of members) this.#unsentMembers.delete(workerId);
      this.#send({ kind: "members", members });
    }
  }

  #flush(): void {
    while (this.#waiting.length > 0 && !this.#isBlocked && !this.#isClosed) {
      const replies: WorkerReply[] = [];
      let bytes = 0;
      for (const sized of this.#waiting) {
        const isFull = replies.length === FRAME_REPLIES_MAX || bytes + sized.bytes > FRAME_BYTES;
        if (replies.length > 0 && isFull) break;
        replies.push(sized.reply);
        bytes += sized.bytes;
      }
      this.#waiting = this.#waiting.slice(replies.length);
      this.#waitingBytes -= bytes;
      this.#send({ kind: "replies", replies }, this.#takeAfterReplies());
    }
  }

  /** What is to run once all replies so far have been written; `undefined` while some wait, or for nothing. */
  #takeAfterReplies(): (() => void) | undefined {
    const runs = this.#afterReplies;
    if (runs.length === 0 || this.#waiting.length > 0) return undefined;
    this.#afterReplies = [];
    return () => {
      for (const run of runs) run();
    };
  }

  #unblock(): void {
    this.#isBlocked = false;
    const state = this.#unsentState;
    this.#unsentState = undefined;
    if (state !== undefined) this.announce(state);
    this.#sendMembers();
    this.#flush();
  }

  #watchSilence(): GraceTimer {
    this.#isHeard = false;
    const delayMs = this.#settings.silentMs * (this.#isWorker ? SILENT_WORKER_FACTOR : 1);
    return setGraceTimer(this.#parts.clock, { delayMs, slicesMax: SILENCE_SLICES }, () => {
      if (this.#isHeard) this.#silenceTimer = this.#watchSilence();
      else this.#fail(new WinnowError("UNAVAILABLE", "Nothing was heard of the router"));
    });
  }

  #receive(bytes: Buffer): void {
    if (this.#isClosed) return;
    this.#isHeard = true;
    let frame;
    try {
      frame = decodeRouterFrame(bytes);
    } catch (error) {
      return this.#fail(toWinnowError(error));
    }
    this.#dispatch(frame);
  }

  #dispatch(frame: RouterFrame): void {
    if (this.#handlers === undefined) {
      if (frame.kind === "hello") return this.#open(frame);
      return this.#fail(new WinnowError("FAILED_PRECONDITION", "The first frame must be a hello"));
    }
    switch (frame.kind) {
      case "queries":
        return this.#handlers.onQueries(frame.queries);
      case "cancel":
        return this.#handlers.onCancel(frame.id);
      case "ping":
        this.#isWorker ||= frame.wantsHeard === true;
        return this.#handlers.onPing(
          frame.sequence,
          frame.wantsHeard === true,
          frame.inDoubt === true,
        );
      case "predecessor":
        return this.#handlers.onPredecessor(frame.incarnation);
      case "hello":
        return this.#fail(new WinnowError("FAILED_PRECONDITION", "A stream greets once"));
    }
  }

  #open({ routerId, wantsMembers }: RouterFrame & { readonly kind: "hello" }): void {
    this.#silenceTimer.clear();
    this.#silenceTimer = this.#watchSilence();
    this.#routerId = routerId;
    this.#wantsMembers = wantsMembers;
    this.announce(this.#parts.service.announcement());
    this.#handlers = this.#parts.service.accept(this);
  }

  /** Ends this stream with an error; other streams are not affected. */
  #fail(error: WinnowError): void {
    if (this.#isClosed) return;
    const details = cutDetails(error.message);
    this.#end();
    this.#call.emit("error", { code: grpcStatusOf(error.code), details });
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#unsentMembers.clear();
    this.#silenceTimer.clear();
    this.#handlers?.onClose();
    this.#parts.onEnd(this);
  }
}

function tooLarge({ id, queueUs, computeUs }: WorkerReply, bytes: number): SizedReply {
  const error = new WinnowError(
    "RESOURCE_EXHAUSTED",
    `An answer of ${bytes} bytes does not fit one frame; ask for fewer instances or a smaller k`,
  );
  const answer = { kind: "failure", reason: "INTERNAL", error } as const;
  return { reply: { id, queueUs, computeUs, answer }, bytes: 512 };
}
