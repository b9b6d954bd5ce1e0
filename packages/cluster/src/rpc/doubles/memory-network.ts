// A network inside one process, in place of `GrpcConnector` and `WorkerServer`. Frames arrive in
// order after a delay; streams can be broken, frozen, refused. The suite `connector.cases.ts` runs
// against this network and against gRPC, so that results of tests on this network hold for gRPC.

import { WinnowError, toWinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { Announcement } from "../../announcement/announcement.ts";
import type { MemberNews, Pong, RouterFrame, WorkerFrame, WorkerReply } from "../frames/frames.ts";
import type {
  FrameChannel,
  FrameHandlers,
  OrderMessage,
  ProgramQuery,
  WorkerConnector,
} from "../worker-connector.ts";
import type { LinkHandlers, WorkerLink, WorkerService } from "../worker-link.ts";

/** Workers by address, and the faults of the way to them. */
export class MemoryNetwork implements WorkerConnector {
  readonly #clock: Clock;
  readonly #delayMs: () => number;
  readonly #services = new Map<string, WorkerService>();
  readonly #streams = new Set<MemoryStream>();
  readonly #frozen = new Set<string>();

  /** `delayMs` is drawn for every frame; frames of one direction never overtake each other. */
  constructor(clock: Clock, delayMs: () => number = () => 0) {
    this.#clock = clock;
    this.#delayMs = delayMs;
  }

  /** A worker appears at an address. */
  listen(address: string, service: WorkerService): void {
    this.#services.set(address, service);
  }

  /** A worker goes: its streams break off and new ones are refused. */
  stop(address: string): void {
    this.#services.delete(address);
    this.breakStreams(address);
  }

  /** All streams to an address break off; new ones may be opened. */
  breakStreams(address: string): void {
    for (const stream of [...this.#streams].filter((each) => each.address === address)) {
      stream.break(new WinnowError("UNAVAILABLE", "The stream broke off"));
    }
  }

  /** Holds back everything in both directions without an error: a stopped process, a cut link. */
  freeze(address: string): void {
    this.#frozen.add(address);
  }

  /** Ends a freeze: what was held back arrives. */
  thaw(address: string): void {
    this.#frozen.delete(address);
    for (const stream of this.#streams) stream.deliver();
  }

  open(address: string, handlers: FrameHandlers): FrameChannel {
    const stream = new MemoryStream({
      address,
      handlers,
      clock: this.#clock,
      delayMs: this.#delayMs,
      service: () => this.#services.get(address),
      isFrozen: () => this.#frozen.has(address),
      onEnd: (ended) => this.#streams.delete(ended),
    });
    this.#streams.add(stream);
    return stream;
  }

  async describe(address: string, timeoutMs: number): Promise<Announcement> {
    const service = await this.#reach(address, timeoutMs);
    return service.announcement();
  }

  async program(address: string, query: ProgramQuery): Promise<Uint8Array> {
    const service = await this.#reach(address, Infinity);
    return service.program(query);
  }

  async tellOrder(address: string, message: OrderMessage, timeoutMs: number): Promise<void> {
    const service = await this.#reach(address, timeoutMs);
    await service.followOrder(message);
  }

  async askOrder(address: string, timeoutMs: number): Promise<string | undefined> {
    const service = await this.#reach(address, timeoutMs);
    return service.knownOrder();
  }

  forget(): void {}

  close(): void {
    for (const stream of this.#streams) stream.cancel();
  }

  #reach(address: string, timeoutMs: number): Promise<WorkerService> {
    const isFrozen = this.#frozen.has(address);
    return new Promise((resolve, reject) => {
      this.#clock.setTimer(isFrozen ? Math.min(timeoutMs, 2 ** 30) : this.#delayMs(), () => {
        const service = this.#services.get(address);
        if (isFrozen) reject(new WinnowError("DEADLINE_EXCEEDED", "No answer from the worker"));
        else if (service === undefined) reject(new WinnowError("UNAVAILABLE", "Nobody is there"));
        else resolve(service);
      });
    });
  }
}

interface StreamParts {
  readonly address: string;
  readonly handlers: FrameHandlers;
  readonly clock: Clock;
  readonly delayMs: () => number;
  readonly service: () => WorkerService | undefined;
  readonly isFrozen: () => boolean;
  readonly onEnd: (stream: MemoryStream) => void;
}

/** Both ends of one stream. */
class MemoryStream implements FrameChannel, WorkerLink {
  readonly address: string;
  readonly #parts: StreamParts;
  readonly #held: (() => void)[] = [];
  #dueMs = 0;
  #routerId = "";
  #wantsMembers = false;
  #worker: LinkHandlers | undefined;
  #replies: WorkerReply[] = [];
  #isOver = false;
  #isEnding = false;

  constructor(parts: StreamParts) {
    this.address = parts.address;
    this.#parts = parts;
    this.#later(() => {
      if (parts.service() === undefined) {
        this.break(new WinnowError("UNAVAILABLE", "Nobody is there"));
      }
    });
  }

  get routerId(): string {
    return this.#routerId;
  }

  send(frame: RouterFrame): boolean {
    if (this.#isOver || this.#isEnding) return false;
    this.#later(() => this.#atWorker(frame));
    return true;
  }

  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#later(() => this.close());
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#finish();
    this.#leaveWorker();
  }

  reply(reply: WorkerReply): void {
    this.#replies.push(reply);
    if (this.#replies.length > 1) return;
    this.#later(() => {
      const replies = this.#replies;
      this.#replies = [];
      this.#parts.handlers.onFrame({ kind: "replies", replies });
    });
  }

  afterReplies(run: () => void): void {
    this.#parts.clock.setTimer(0, run);
  }

  pong(pong: Pong): void {
    this.#toRouter({ kind: "pong", pong });
  }

  announce(announcement: Announcement): void {
    this.#toRouter({ kind: "state", announcement });
  }

  tellMembers(members: readonly MemberNews[]): void {
    if (this.#wantsMembers) this.#toRouter({ kind: "members", members });
  }

  drain(): void {
    this.#toRouter({ kind: "drain" });
  }

  /** The worker ends the stream in order: what it sent before still arrives. */
  close(): void {
    this.#leaveWorker();
    this.#later(() => this.#over(undefined));
  }

  refuse(error: WinnowError): void {
    this.break(error);
  }

  /** Both sides learn that the stream is over; what was under way is lost. */
  break(error: WinnowError): void {
    this.#leaveWorker();
    this.#over(error);
  }

  /** Hands on what arrived while the network was frozen. */
  deliver(): void {
    for (const arrive of this.#held.splice(0)) if (!this.#isOver) arrive();
  }

  #toRouter(frame: WorkerFrame): void {
    this.#later(() => this.#parts.handlers.onFrame(frame));
  }

  #atWorker(frame: RouterFrame): void {
    const service = this.#parts.service();
    if (service === undefined) return;
    switch (frame.kind) {
      case "hello":
        this.#routerId = frame.routerId;
        this.#wantsMembers = frame.wantsMembers;
        this.announce(service.announcement());
        this.#worker = service.accept(this);
        break;
      case "queries":
        this.#worker?.onQueries(frame.queries);
        break;
      case "cancel":
        this.#worker?.onCancel(frame.id);
        break;
      case "ping":
        this.#worker?.onPing(frame.sequence, frame.wantsHeard === true, frame.inDoubt === true);
        break;
      case "predecessor":
        this.#worker?.onPredecessor(frame.incarnation);
        break;
    }
  }

  #later(arrive: () => void): void {
    if (this.#isOver) return;
    const { clock, delayMs, isFrozen } = this.#parts;
    this.#dueMs = Math.max(this.#dueMs, clock.nowMs() + delayMs());
    clock.setTimer(this.#dueMs - clock.nowMs(), () => {
      if (this.#isOver) return;
      if (isFrozen() || this.#held.length > 0) this.#held.push(arrive);
      else arrive();
    });
  }

  #leaveWorker(): void {
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.onClose();
  }

  #over(error: WinnowError | undefined): void {
    if (this.#isOver) return;
    this.#finish();
    this.#parts.handlers.onClose(error === undefined ? undefined : toWinnowError(error));
  }

  #finish(): void {
    this.#isOver = true;
    this.#parts.onEnd(this);
  }
}
