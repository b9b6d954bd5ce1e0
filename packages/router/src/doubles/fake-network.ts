// Pretended workers behind a whole router: a membership list that tests edit, and a network inside
// the process that speaks frames (`WorkerConnector`), so that links, programs and tables are real.

import type { Incarnation, ProgramPackage, WorkerId } from "@winnow/core";
import { encodeProgramPackage, incarnation, WinnowError } from "@winnow/core";
import type { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type {
  Announcement,
  FrameChannel,
  FrameHandlers,
  MembershipStore,
  MembershipView,
  OrderMark,
  RouterFrame,
  WorkerConnector,
  WorkerFrame,
  WorkerState,
} from "@winnow/cluster";
import type { Behaviour, FakeData, FakeStatus } from "./fake-cluster.ts";
import { announcementOf, answerOf } from "./fake-cluster.ts";

/** A worker as the network reaches it. */
export interface NetworkWorker extends FakeStatus {
  incarnation: Incarnation;
  state: WorkerState;
  held: Set<number>;
  versions: number[];
  unloading: boolean;
  delayMs: number;
  /** Nothing gets in or out, and nobody is told. */
  frozen: boolean;
  /** Refuses connections. */
  down: boolean;
  queries: number;
  cancels: number;
  pings: number;
  /** Numbers itself above what a router tells it of. */
  heedsPredecessors: boolean;
  behave: () => Behaviour;
}

/** What a test may say of a worker. */
interface NetworkWorkerWords {
  readonly versions?: readonly number[];
  readonly address?: string;
}

interface Stream {
  readonly worker: NetworkWorker;
  readonly handlers: FrameHandlers;
  open: boolean;
}

/** Streams to pretended workers. */
export class FakeNetwork implements WorkerConnector {
  readonly #contents: ProgramPackage;
  readonly workers = new Map<string, NetworkWorker>();
  readonly #clock: ManualClock;
  readonly #data: FakeData;
  readonly #streams = new Set<Stream>();
  programsSent = 0;
  /** The models order that all workers follow, and how it gets to who asks for it. */
  order: { readonly mark: OrderMark; readonly ask: () => Promise<string> } | undefined;
  /** What becomes of a program on its way, if anything. */
  damage: ((bytes: Uint8Array) => Uint8Array) | undefined;

  constructor(clock: ManualClock, data: FakeData, contents: ProgramPackage) {
    this.#clock = clock;
    this.#data = data;
    this.#contents = contents;
  }

  /** Adds a worker that holds these partitions of both tables. */
  add(
    id: string,
    held: readonly number[],
    { versions = [7], address = `${id}:7600` }: NetworkWorkerWords = {},
  ): NetworkWorker {
    const worker: NetworkWorker = {
      id: id as WorkerId,
      address,
      incarnation: incarnation(1),
      state: "ready",
      held: new Set(held),
      versions: [...versions],
      unloading: false,
      delayMs: 1,
      frozen: false,
      down: false,
      queries: 0,
      cancels: 0,
      pings: 0,
      heedsPredecessors: true,
      behave: () => "answer",
    };
    this.workers.set(worker.address, worker);
    return worker;
  }

  /** Open streams, in all. */
  get streams(): number {
    return this.#streams.size;
  }

  announcementOf(worker: NetworkWorker): Announcement {
    return { ...announcementOf(this.#data, worker), order: this.order?.mark };
  }

  /** The worker tells all its routers where others are. */
  tell(worker: NetworkWorker, others: readonly NetworkWorker[], isGone = false): void {
    const members = others.map(({ id, address, incarnation: number }) => ({
      workerId: id,
      address,
      incarnation: number,
      isGone,
    }));
    for (const stream of this.#of(worker)) this.#toRouter(stream, { kind: "members", members });
  }

  /** The worker tells all its routers what it holds now. */
  announce(worker: NetworkWorker): void {
    for (const stream of this.#of(worker)) {
      this.#toRouter(stream, { kind: "state", announcement: this.announcementOf(worker) });
    }
  }

  /** Ends the worker's streams as a dying process does. */
  kill(worker: NetworkWorker): void {
    worker.down = true;
    for (const stream of this.#of(worker)) {
      stream.open = false;
      this.#streams.delete(stream);
      stream.handlers.onClose(new WinnowError("UNAVAILABLE", "connection reset"));
    }
  }

  /** A new life of a dead worker. */
  restart(worker: NetworkWorker, life = worker.incarnation + 1): void {
    worker.incarnation = incarnation(life);
    worker.down = false;
  }

  open(address: string, handlers: FrameHandlers): FrameChannel {
    const worker = this.workers.get(address);
    if (worker === undefined || worker.down) {
      const error = new WinnowError("UNAVAILABLE", "connection refused");
      this.#clock.setTimer(0, () => handlers.onClose(error));
      return { send: () => true, end: () => undefined, cancel: () => undefined };
    }
    const stream: Stream = { worker, handlers, open: true };
    this.#streams.add(stream);
    const leave = (): void => {
      stream.open = false;
      this.#streams.delete(stream);
    };
    return {
      send: (frame) => {
        this.#clock.setTimer(0, () => stream.open && this.#receive(stream, frame));
        return true;
      },
      end: () => {
        if (!stream.open) return;
        leave();
        this.#clock.setTimer(0, () => handlers.onClose(undefined));
      },
      cancel: leave,
    };
  }

  async describe(address: string): Promise<Announcement> {
    const worker = this.workers.get(address);
    if (worker === undefined) throw new WinnowError("UNAVAILABLE", "nobody there");
    return this.announcementOf(worker);
  }

  async program(address: string): Promise<Uint8Array> {
    if (this.workers.get(address)?.down !== false) throw new WinnowError("UNAVAILABLE", "gone");
    this.programsSent += 1;
    const bytes = encodeProgramPackage(this.#contents);
    return this.damage === undefined ? bytes : this.damage(bytes);
  }

  tellOrder(): Promise<void> {
    return Promise.reject(new WinnowError("FAILED_PRECONDITION", "Pretended workers keep theirs"));
  }

  askOrder(): Promise<string | undefined> {
    return this.order === undefined ? Promise.resolve(undefined) : this.order.ask();
  }

  forget(): void {}

  close(): void {}

  #of(worker: NetworkWorker): Stream[] {
    return [...this.#streams].filter((stream) => stream.worker === worker);
  }

  #toRouter(stream: Stream, frame: WorkerFrame, delayMs = 0): void {
    this.#clock.setTimer(delayMs, () => {
      if (stream.open && !stream.worker.frozen) stream.handlers.onFrame(frame);
    });
  }

  #receive(stream: Stream, frame: RouterFrame): void {
    const { worker } = stream;
    if (worker.frozen) return;
    switch (frame.kind) {
      case "hello":
        this.#toRouter(stream, { kind: "state", announcement: this.announcementOf(worker) });
        break;
      case "ping": {
        const { sequence } = frame;
        worker.pings += 1;
        const pong = { sequence, queueRows: 0, progress: sequence, stalled: false };
        this.#toRouter(stream, { kind: "pong", pong });
        break;
      }
      case "cancel":
        worker.cancels += 1;
        break;
      case "predecessor":
        if (!worker.heedsPredecessors) break;
        worker.incarnation = incarnation(frame.incarnation + 1);
        this.announce(worker);
        break;
      case "queries":
        for (const query of frame.queries) {
          worker.queries += 1;
          const behaviour = worker.behave();
          if (behaviour === "silent") continue;
          const { held } = worker;
          const answer = answerOf(this.#data, { question: query, held, behaviour });
          const reply = { id: query.id, queueUs: 0, computeUs: 0, answer };
          this.#toRouter(stream, { kind: "replies", replies: [reply] }, worker.delayMs);
        }
        break;
    }
  }
}

/** A membership list that tests edit. */
export class FakeMembership implements MembershipStore {
  #view: MembershipView = {
    workers: [],
    contacts: [],
    silent: [],
    placementWorkers: [],
    readAtMs: 0,
    healthy: true,
  };
  readonly #listeners = new Set<(view: MembershipView) => void>();
  #isSilent = false;

  /** The store now names these workers; or says it does not know. */
  publish(workers: readonly Announcement[], healthy = true): void {
    this.#view = { ...this.#view, workers, contacts: workers, healthy };
    for (const listener of this.#listeners) listener(this.#view);
  }

  watch(listener: (view: MembershipView) => void): () => void {
    this.#listeners.add(listener);
    listener(this.#view);
    return () => this.#listeners.delete(listener);
  }

  /** It has never answered. */
  silence(): void {
    this.#isSilent = true;
  }

  readAtMs(): number | undefined {
    return this.#isSilent ? undefined : this.#view.readAtMs;
  }

  async lastIncarnation(): Promise<undefined> {}
  async announce(): Promise<void> {}
  suspend(): void {}
  async withdraw(): Promise<void> {}
  async close(): Promise<void> {}
}
