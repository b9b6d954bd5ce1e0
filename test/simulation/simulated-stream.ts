// One stream between a router and a worker, with both ends, as gRPC would carry it.

import { WinnowError } from "@winnow/core";
import type {
  Announcement,
  FrameChannel,
  FrameHandlers,
  LinkHandlers,
  MemberNews,
  Pong,
  RouterFrame,
  WorkerFrame,
  WorkerLink,
  WorkerReply,
} from "@winnow/cluster";
import { copied } from "./frame-copy.ts";
import type { Listener } from "./simulated-listener.ts";
import type { Link, SimulatedNetwork, Way } from "./simulated-network.ts";
import type { SimulatedProcess } from "./simulated-process.ts";

/** What a stream belongs to. */
export interface StreamParts {
  readonly process: SimulatedProcess;
  readonly link: Link;
  readonly handlers: FrameHandlers;
}

/** A stream; each end closes separately, and learns of the other's end when that message arrives. */
export class SimulatedStream implements FrameChannel, WorkerLink {
  readonly process: SimulatedProcess;
  readonly link: Link;
  /** Who took it, once it has arrived. */
  listener: Listener | undefined;
  silentSinceMs: number | undefined;
  readonly #network: SimulatedNetwork;
  readonly #handlers: FrameHandlers;
  readonly #lastMs: Record<Way, number> = { toWorker: 0, toClient: 0 };
  #isClientOpen = true;
  #isEnding = false;
  #isWorkerOpen = false;
  #worker: LinkHandlers | undefined;
  #routerId = "";
  #replies: WorkerReply[] = [];

  constructor(network: SimulatedNetwork, { process, link, handlers }: StreamParts) {
    this.#network = network;
    this.process = process;
    this.link = link;
    this.#handlers = handlers;
    this.#pass("toWorker", () => this.#arrive());
  }

  get routerId(): string {
    return this.#routerId;
  }

  /** Whether nothing from the worker can be received. */
  get isWorkerSilent(): boolean {
    const isStill = this.listener?.process.state === "paused";
    const isGone = this.#network.isVanished(this.link.address);
    return isStill || (isGone && this.listener?.isClosed !== true);
  }

  // What the router does.

  send(frame: RouterFrame): boolean {
    if (!this.#isClientOpen || this.#isEnding) return false;
    const sent = copied(frame);
    this.#pass("toWorker", () => this.#atWorker(sent));
    return true;
  }

  end(): void {
    if (!this.#isClientOpen || this.#isEnding) return;
    this.#isEnding = true;
    this.#pass("toWorker", () => this.listener?.process.receive(() => this.close()));
  }

  cancel(): void {
    if (!this.#isClientOpen) return;
    this.endClient();
  }

  /** The router's end is closed; the worker is notified. */
  endClient(): void {
    this.#isClientOpen = false;
    this.#pass("toWorker", () => this.#leave());
    this.#forgetIfOver();
  }

  giveUpAtClient(): void {
    if (!this.#isClientOpen || this.process.state !== "running") return;
    this.endClient();
    this.#handlers.onClose(new WinnowError("UNAVAILABLE", "Keepalive: no answer"));
  }

  // What the worker does.

  reply(reply: WorkerReply): void {
    this.#replies.push(reply);
    if (this.#replies.length > 1) return;
    this.listener?.process.soon(() => {
      const replies = this.#replies;
      this.#replies = [];
      this.#tell({ kind: "replies", replies });
    });
  }

  afterReplies(run: () => void): void {
    this.listener?.process.soon(() => this.listener?.process.soon(run));
  }

  pong(pong: Pong): void {
    this.#tell({ kind: "pong", pong });
  }

  announce(announcement: Announcement): void {
    this.#tell({ kind: "state", announcement });
  }

  tellMembers(members: readonly MemberNews[]): void {
    this.#tell({ kind: "members", members });
  }

  drain(): void {
    this.#tell({ kind: "drain" });
  }

  /** In order: what was sent before still arrives. */
  close(): void {
    if (!this.#isWorkerOpen) return;
    if (this.#replies.length > 0) this.#tell({ kind: "replies", replies: this.#replies });
    this.#replies = [];
    this.#isWorkerOpen = false;
    this.#pass("toClient", () => this.#over(undefined));
    this.#leave();
  }

  refuse(error: WinnowError): void {
    if (!this.#isWorkerOpen) return;
    this.#isWorkerOpen = false;
    this.#pass("toClient", () => this.#over(error));
    this.#leave();
  }

  /** The worker's process has ended, or has closed its streams. */
  resetByWorker(): void {
    if (this.listener?.process.state !== "dead") this.#leave();
    this.#isWorkerOpen = false;
    this.#pass("toClient", () => this.#over(new WinnowError("UNAVAILABLE", "Reset")));
  }

  giveUpAtWorker(): void {
    this.listener?.process.receive(() => this.#leave());
  }

  #arrive(): void {
    if (this.#network.isVanished(this.link.address)) return;
    const listener = this.#network.listenerAt(this.link.address);
    if (listener === undefined || listener.isDraining) {
      const error = new WinnowError("UNAVAILABLE", "Nobody is there");
      return this.#pass("toClient", () => this.#over(error));
    }
    this.listener = listener;
    this.#isWorkerOpen = true;
    listener.streams.add(this);
  }

  #atWorker(frame: RouterFrame): void {
    const { listener } = this;
    if (listener === undefined || !this.#isWorkerOpen) return;
    listener.process.receive(() => {
      if (!this.#isWorkerOpen) return;
      if (frame.kind === "hello") {
        this.#routerId = frame.routerId;
        this.announce(listener.service.announcement());
        this.#worker = listener.service.accept(this);
      } else if (frame.kind === "queries") this.#worker?.onQueries(frame.queries);
      else if (frame.kind === "cancel") this.#worker?.onCancel(frame.id);
      else if (frame.kind === "predecessor") this.#worker?.onPredecessor(frame.incarnation);
      else this.#worker?.onPing(frame.sequence, frame.wantsHeard === true, frame.inDoubt === true);
    });
  }

  #leave(): void {
    const worker = this.#worker;
    const { listener } = this;
    this.#worker = undefined;
    this.#isWorkerOpen = false;
    if (listener?.process.state === "dead") return this.#forgetIfOver();
    listener?.process.receive(() => {
      worker?.onClose();
      listener.forget(this);
    });
    this.#forgetIfOver();
  }

  #tell(frame: WorkerFrame): void {
    if (!this.#isWorkerOpen) return;
    const told = copied(frame);
    this.#pass("toClient", () => {
      this.process.receive(() => {
        if (this.#isClientOpen) this.#handlers.onFrame(told);
      });
    });
  }

  #over(error: WinnowError | undefined): void {
    this.process.receive(() => {
      if (!this.#isClientOpen) return;
      this.#isClientOpen = false;
      this.#forgetIfOver();
      this.#handlers.onClose(error);
    });
  }

  #forgetIfOver(): void {
    if (!this.#isClientOpen && !this.#isWorkerOpen) this.#network.forgetStream(this);
  }

  #pass(way: Way, arrive: () => void): void {
    const atMs = Math.max(this.#lastMs[way] + 0.0001, this.#network.arrivalMs(this.link));
    this.#lastMs[way] = atMs;
    this.#network.transit(this.link, way, { atMs, arrive });
  }
}
