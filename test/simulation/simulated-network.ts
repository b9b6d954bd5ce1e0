// The network between simulated processes, with the guarantees of TCP and gRPC: messages of one stream and
// direction arrive in order; what a cut link holds back arrives when the link is repaired, unless a keepalive
// has closed the connection before; a process that ends resets its connections, a machine that vanishes does
// not.

import { WinnowError } from "@winnow/core";
import type {
  Announcement,
  FrameChannel,
  FrameHandlers,
  ListenForRouters,
  WorkerConnector,
  WorkerService,
} from "@winnow/cluster";
import { copied } from "./frame-copy.ts";
import { Listener } from "./simulated-listener.ts";
import { SimulatedStream } from "./simulated-stream.ts";
import type { SimulatedProcess } from "./simulated-process.ts";
import { between } from "./virtual-time.ts";
import type { Random, VirtualTime } from "./virtual-time.ts";

/** Towards the worker, or back. */
export type Way = "toWorker" | "toClient";

/** The link between a client and an address. */
export interface Link {
  readonly client: string;
  readonly address: string;
  readonly cut: Record<Way, boolean>;
  readonly held: Record<Way, (() => void)[]>;
  extraMs: number;
}

/** A question outside of streams that has no answer yet. */
interface OpenCall {
  readonly process: SimulatedProcess;
  readonly link: Link;
  sinceMs: number;
  readonly fail: () => void;
}

const KEEPALIVE_CHECK_MS = 500;
/** If a peer does not answer, the client closes the connection first, the server later. */
const CLIENT_SILENCE_MS_MAX = 3000;
const SERVER_SILENCE_MS_MAX = 15_000;
/** What was held back arrives with a retransmission. */
const RETRANSMISSION_MS_MAX = 200;

const unreachable = (): WinnowError => new WinnowError("UNAVAILABLE", "Nobody is there");

/** Addresses, links and their faults. */
export class SimulatedNetwork {
  readonly time: VirtualTime;
  readonly #random: Random;
  readonly #latencyMs: number;
  readonly #listeners = new Map<string, Listener>();
  readonly #vanished = new Set<string>();
  readonly #links = new Map<string, Link>();
  readonly #streams = new Set<SimulatedStream>();
  readonly #calls = new Set<OpenCall>();

  constructor(time: VirtualTime, random: Random, latencyMs: number) {
    this.time = time;
    this.#random = random;
    this.#latencyMs = latencyMs;
    this.#checkLater();
  }

  /** How a worker of this process listens at an address. */
  listenAt(process: SimulatedProcess, address: string): ListenForRouters {
    return async ({ service }) => {
      const listener = new Listener(process, service, () => {
        if (this.#listeners.get(address) === listener) this.#listeners.delete(address);
      });
      this.#listeners.set(address, listener);
      this.#vanished.delete(address);
      return listener;
    };
  }

  /** The network as one process sees it. Links belong to the role, so they outlive a restart. */
  connectorOf(process: SimulatedProcess, client: string): WorkerConnector {
    const linkTo = (address: string): Link => this.link(client, address);
    return {
      open: (address, handlers) => this.#open(process, linkTo(address), handlers),
      describe: (address, timeoutMs) =>
        this.#call<Announcement>(process, linkTo(address), {
          answer: async (service) => service.announcement(),
          timeoutMs,
        }),
      program: (address, query, signal) =>
        this.#call(process, linkTo(address), {
          answer: (service) => service.program(query),
          signal,
        }),
      tellOrder: (address, message, timeoutMs) =>
        this.#call(process, linkTo(address), {
          answer: (service) => service.followOrder(message),
          timeoutMs,
        }),
      askOrder: (address, timeoutMs) =>
        this.#call(process, linkTo(address), {
          answer: async (service) => service.knownOrder(),
          timeoutMs,
        }),
      forget: () => undefined,
      close: () => this.#closeOf(process),
    };
  }

  #closeOf(process: SimulatedProcess): void {
    for (const stream of this.#streams) if (stream.process === process) stream.cancel();
    for (const call of this.#calls) if (call.process === process) call.fail();
  }

  link(client: string, address: string): Link {
    const key = `${client}>${address}`;
    const known = this.#links.get(key);
    if (known !== undefined) return known;
    const cut = { toWorker: false, toClient: false };
    const link = { client, address, cut, held: { toWorker: [], toClient: [] }, extraMs: 0 };
    this.#links.set(key, link);
    return link;
  }

  mend(link: Link): void {
    for (const way of ["toWorker", "toClient"] as const) {
      if (!link.cut[way]) continue;
      link.cut[way] = false;
      this.time.after(between(this.#random, 0, RETRANSMISSION_MS_MAX), () => {
        if (link.cut[way]) return;
        for (const arrive of link.held[way].splice(0)) arrive();
      });
    }
  }

  /** A process has ended; if its machine vanished too, nobody is notified. */
  end(process: SimulatedProcess, isSilent: boolean): void {
    for (const stream of this.#streams) {
      if (stream.process === process) stream.endClient();
      else if (stream.listener?.process === process && !isSilent) stream.resetByWorker();
    }
    for (const [address, listener] of this.#listeners) {
      if (listener.process !== process) continue;
      this.#listeners.delete(address);
      if (isSilent) this.#vanished.add(address);
    }
  }

  listenerAt(address: string): Listener | undefined {
    return this.#listeners.get(address);
  }

  isVanished(address: string): boolean {
    return this.#vanished.has(address);
  }

  /** When a message sent now arrives. */
  arrivalMs(link: Link): number {
    return this.time.nowMs + between(this.#random, 0.05, this.#latencyMs) + link.extraMs;
  }

  /** Delivers something at a given time, or when the link is repaired. */
  transit(link: Link, way: Way, { atMs, arrive }: { atMs: number; arrive: () => void }): void {
    this.time.at(atMs, () => {
      if (link.cut[way] || link.held[way].length > 0) link.held[way].push(arrive);
      else arrive();
    });
  }

  forgetStream(stream: SimulatedStream): void {
    this.#streams.delete(stream);
  }

  #open(process: SimulatedProcess, link: Link, handlers: FrameHandlers): FrameChannel {
    const stream = new SimulatedStream(this, { process, link, handlers });
    this.#streams.add(stream);
    return stream;
  }

  /** A question outside of streams. */
  #call<Answer>(
    process: SimulatedProcess,
    link: Link,
    how: {
      readonly answer: (service: WorkerService) => Promise<Answer>;
      readonly timeoutMs?: number;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const fail = (): void => end(() => reject(unreachable()));
      const call: OpenCall = { process, link, sinceMs: this.time.nowMs, fail };
      this.#calls.add(call);
      const timer =
        how.timeoutMs === undefined
          ? undefined
          : process.setTimer(how.timeoutMs, () =>
              end(() => reject(new WinnowError("DEADLINE_EXCEEDED", "No answer in time"))),
            );
      const stop = (): void => end(() => reject(how.signal?.reason as Error));
      how.signal?.addEventListener("abort", stop, { once: true });
      const end = (settle: () => void): void => {
        if (!this.#calls.delete(call)) return;
        if (timer !== undefined) process.clearTimer(timer);
        how.signal?.removeEventListener("abort", stop);
        settle();
      };
      const back = (settle: () => void): void =>
        this.transit(link, "toClient", {
          atMs: this.arrivalMs(link),
          arrive: () => process.receive(() => end(settle)),
        });
      const ask = (): void => {
        if (this.#vanished.has(link.address)) return;
        const listener = this.#listeners.get(link.address);
        if (listener === undefined) return back(() => reject(unreachable()));
        listener.process.receive(() => {
          how.answer(listener.service).then(
            (answer) => back(() => resolve(copied(answer))),
            (error: unknown) => back(() => reject(copied(error))),
          );
        });
      };
      this.transit(link, "toWorker", { atMs: this.arrivalMs(link), arrive: ask });
    });
  }

  /** Keepalive: a connection on which nothing arrives for long is closed. */
  #checkLater(): void {
    this.time.after(KEEPALIVE_CHECK_MS, () => {
      for (const stream of this.#streams) this.#checkStream(stream);
      for (const call of this.#calls) this.#checkCall(call);
      this.#checkLater();
    });
  }

  #checkStream(stream: SimulatedStream): void {
    const { cut } = stream.link;
    const { nowMs } = this.time;
    const isSilent = stream.isWorkerSilent || cut.toWorker || cut.toClient;
    stream.silentSinceMs = isSilent ? (stream.silentSinceMs ?? nowMs) : undefined;
    const silentMs = nowMs - (stream.silentSinceMs ?? nowMs);
    if (silentMs >= SERVER_SILENCE_MS_MAX) stream.giveUpAtWorker();
    if (silentMs >= CLIENT_SILENCE_MS_MAX) stream.giveUpAtClient();
  }

  #checkCall(call: OpenCall): void {
    const { cut, address } = call.link;
    const { nowMs } = this.time;
    const state = this.#listeners.get(address)?.process.state;
    const isSilent = cut.toWorker || cut.toClient || state !== "running";
    if (!isSilent) call.sinceMs = nowMs;
    else if (nowMs - call.sinceMs >= CLIENT_SILENCE_MS_MAX) call.fail();
  }
}
