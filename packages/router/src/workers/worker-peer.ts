// How far this router trusts one worker. The channel below knows whether a stream is open; this file decides
// whether the worker is worth asking.
//
//              3 pings unanswered, or it says "stalled"
//   trusted ───────────────────────────────────────────▶ suspect ── answers again, 1 s ──▶ trusted
//      │ 5 failures in a row                                                               ▲
//      └──────────▶ ejected (1 s × n) ──▶ probation: one question ── answered ─────────────┘
//                      ▲                          │ failed
//                      └──────────────────────────┘
//
// A ping is sent with every tick while questions are asked or a ping is unanswered, and at growing intervals
// otherwise; the first question after a rest is sent with a ping. A worker at rest needs no tick before its
// next ping.
//
// Neither suspicion nor ejection forbids anything: an untrusted worker is asked last, so the last replica of
// a partition is asked however bad it is (the panic rule).

import { Outstanding } from "@winnow/core";
import type { Environment, WorkerId } from "@winnow/core";
import type {
  Announcement,
  Asked,
  Pong,
  Question,
  RoutedTable,
  WorkerChannel,
  WorkerReply,
} from "@winnow/cluster";
import { LatencyWindow } from "./latency-window.ts";
import { ScanWindow } from "./scan-window.ts";
import { Silences, missesUntilSilent } from "./silences.ts";
import type { RouterSettings } from "../router-settings.ts";

/** The callbacks of one question to a worker. */
export interface QuestionListener {
  /** Called exactly once, unless the question is cancelled. */
  onReply(reply: WorkerReply): void;
  /** The worker has fallen silent; its reply may still arrive. */
  onDoubt(): void;
}

/** The part of a channel that a peer uses. */
export type PeerChannel = Pick<WorkerChannel, "address" | "state" | "ask" | "ping" | "close">;

/** What a peer needs. */
export interface WorkerPeerParts {
  readonly id: WorkerId;
  readonly environment: Environment;
  readonly settings: RouterSettings;
  /** The worker was at rest and is asked now: it needs ticks again. */
  readonly onWork?: (() => void) | undefined;
  /** All workers, this one among them: how slow the others are says how late this one may be. */
  readonly peers?: (() => Iterable<WorkerPeer>) | undefined;
}

interface WaitingQuestion {
  readonly listener: QuestionListener;
  readonly askedAtMs: number;
}

/** A worker that may be asked, and how far it is trusted. */
export class WorkerPeer {
  readonly id: WorkerId;
  readonly latency: LatencyWindow;
  readonly scans: ScanWindow;
  /** For how long it was silent although it lived. */
  readonly silences: Silences;
  readonly #environment: Environment;
  readonly #settings: RouterSettings;
  readonly #onWork: (() => void) | undefined;
  readonly #peers: () => Iterable<WorkerPeer>;
  readonly #waiting = new Outstanding<WaitingQuestion>();
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  readonly #tableAnsweredAtMs = new WeakMap<RoutedTable, number>();
  #channel: PeerChannel | undefined;
  #aimedAt: string | undefined;
  #announcement: Announcement | undefined;
  #connected = false;
  #streamNumber = 0;
  #sequence = 0;
  /** Nothing is outstanding: the last ping was answered, or a question since then. */
  #heard = true;
  #pingedAtMs = Number.NEGATIVE_INFINITY;
  /** When the first ping was sent that nothing was heard since. */
  #unheardSinceMs = Number.NEGATIVE_INFINITY;
  #isIdle = true;
  /** Pings in a row that found the worker at rest. */
  #restedPings = 0;
  #misses = 0;
  /** It has left too many pings without an answer. */
  #isMute = false;
  #stalled = false;
  #queueRows = 0;
  #heardAtMs: number | undefined;
  #progress = 0;
  #progressAtMs = Number.NEGATIVE_INFINITY;
  #suspectUntilMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #ejections = 0;
  #ejectedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(parts: WorkerPeerParts) {
    this.id = parts.id;
    this.latency = new LatencyWindow(parts.environment.clock);
    this.scans = new ScanWindow(parts.environment.clock);
    this.#environment = parts.environment;
    this.#settings = parts.settings;
    this.silences = new Silences(parts.environment.clock);
    this.#onWork = parts.onWork;
    this.#peers = parts.peers ?? (() => []);
  }

  /** Sets the channel that the peer uses from now on. */
  attach(channel: PeerChannel): void {
    this.#channel = channel;
    this.onDisconnect();
  }

  /** The worker's announcement on its stream; after the stream's end, the last one. */
  get announcement(): Announcement | undefined {
    return this.#announcement;
  }

  /** The channel in use; events of any other channel are stale. */
  get channel(): PeerChannel | undefined {
    return this.#channel;
  }

  /** Whether a stream is open and the worker has announced itself on it. */
  get connected(): boolean {
    return this.#connected;
  }

  /** Numbers the streams: what was asked on another stream may never be answered. */
  get streamNumber(): number {
    return this.#streamNumber;
  }

  /** Sets the address at which a worker that was not met yet is looked for. */
  aim(address: string | undefined): void {
    this.#aimedAt = address;
  }

  /** Host and port of the channel in use; before there is one, the address where the worker is looked for. */
  get address(): string | undefined {
    return this.#channel?.address ?? this.#aimedAt;
  }

  /** Whether questions can be sent: the stream is open and the worker is not in drain. */
  get askable(): boolean {
    return this.#connected && this.#channel?.state === "open";
  }

  /** Whether the worker is alive: its stream is open and it answers pings. */
  get answers(): boolean {
    return this.askable && !this.#isMute;
  }

  /** Whether the worker should be asked before those that are suspect or ejected. */
  get trusted(): boolean {
    const nowMs = this.#environment.clock.nowMs();
    if (this.#silent || nowMs < this.#suspectUntilMs || nowMs < this.#ejectedUntilMs) return false;
    return this.#ejections === 0 || this.#waiting.size === 0;
  }

  /**
   * Whether the worker answers pings and makes progress: it has progressed within an attempt's time, or has
   * waiting work and does not call itself stalled. A late answer then means that it is busy, not faulty.
   */
  get progressing(): boolean {
    if (this.#silent || !this.#connected) return false;
    const sinceMs = this.#environment.clock.nowMs() - this.#progressAtMs;
    return this.#queueRows > 0 || sinceMs < this.#settings.attemptTimeoutMs;
  }

  /** Questions without an answer. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** When the oldest question without an answer was asked; `undefined`: there is none. */
  get oldestAskedAtMs(): number | undefined {
    return this.#waiting.oldest?.askedAtMs;
  }

  /** When a question was last answered; -Infinity: never. */
  get answeredAtMs(): number {
    return this.#answeredAtMs;
  }

  /** Notes that a question for this table was answered. */
  noteTableAnswer(table: RoutedTable): void {
    this.#tableAnsweredAtMs.set(table, this.#environment.clock.nowMs());
  }

  /** When a question for this table was last answered; -Infinity: never. */
  tableAnsweredAtMs(table: RoutedTable): number {
    return this.#tableAnsweredAtMs.get(table) ?? Number.NEGATIVE_INFINITY;
  }

  /** Query vectors in its queue, as it last said. */
  get queueRows(): number {
    return this.#queueRows;
  }

  /** When anything last arrived from it; `undefined`: never. */
  get heardAtMs(): number | undefined {
    return this.#heardAtMs;
  }

  /** Unanswered pings in a row. */
  get misses(): number {
    return this.#misses;
  }

  /** Asks; `listener` receives the reply, and doubts that one will come. */
  ask(question: Question, listener: QuestionListener): Asked {
    if (this.#channel === undefined || !this.askable) {
      return { state: "refused", reason: "DISCONNECTED" };
    }
    const sentAtMs = this.#environment.clock.nowMs();
    const id = this.#waiting.add({ listener, askedAtMs: sentAtMs });
    const onReply = (reply: WorkerReply): void => {
      this.#waiting.delete(id);
      this.#onReply(reply, sentAtMs);
      listener.onReply(reply);
    };
    const asked = this.#channel.ask(question, onReply);
    if (asked.state === "refused") {
      this.#waiting.delete(id);
      return asked;
    }
    // A worker at rest is pinged at long intervals and may have fallen silent: counting begins with the question.
    const isRested = this.#heard && sentAtMs - this.#pingedAtMs >= this.#settings.pingIntervalMs;
    const wasIdle = this.#isIdle;
    if (wasIdle && isRested) this.#ping(sentAtMs);
    this.#isIdle = false;
    if (wasIdle) this.#onWork?.();
    return {
      state: "asked",
      cancel: () => {
        if (this.#waiting.delete(id)) this.#noteUnanswered(sentAtMs);
        asked.cancel();
      },
    };
  }

  /** A stream has opened, or the worker's state has changed. */
  onAnnouncement(announcement: Announcement): void {
    if (!this.#connected) this.#forgetMisses();
    this.#connected = true;
    this.#heardAtMs = this.#environment.clock.nowMs();
    this.#announcement = announcement;
  }

  /** The worker's compute side has answered a ping. */
  onPong(pong: Pong): void {
    const nowMs = this.#environment.clock.nowMs();
    this.#hear(nowMs);
    this.#queueRows = pong.queueRows;
    this.scans.note(pong.scans);
    if (pong.progress !== this.#progress) {
      this.#progress = pong.progress;
      this.#progressAtMs = nowMs;
    }
    if (pong.stalled && !this.#stalled) {
      this.#stalled = true;
      this.#suspect("stalled");
    }
    this.#stalled = pong.stalled;
  }

  /** The stream is over. */
  onDisconnect(): void {
    this.#connected = false;
    this.#streamNumber += 1;
    this.#forgetMisses();
  }

  /**
   * It is time for a ping, unless the worker is idle and was pinged lately. Between two ticks this process
   * has listened for a ping's interval, however late the ticks are.
   */
  tick(): void {
    if (!this.#connected || this.#channel === undefined) return;
    const { pingIntervalMs } = this.#settings;
    const nowMs = this.#environment.clock.nowMs();
    const sincePingMs = nowMs - this.#pingedAtMs;
    // A question may have sent a ping between two ticks: half an interval is enough to count it as unanswered.
    this.#countMiss(sincePingMs >= pingIntervalMs / 2);
    const isResting = this.#heard && this.#isIdle && !this.#silent;
    this.#isIdle = this.#waiting.size === 0;
    if (!isResting) this.#restedPings = 0;
    else if (sincePingMs < this.#restMs - REST_SLACK_MS) return;
    else this.#restedPings += 1;
    this.#ping(nowMs);
  }

  /** Ms until this worker needs a tick, while it is at rest. */
  get restingMs(): number {
    const isResting = this.#heard && this.#isIdle && this.#waiting.size === 0 && !this.#silent;
    if (!isResting || !this.#connected || this.#channel === undefined) return 0;
    return Math.max(0, this.#pingedAtMs + this.#restMs - this.#environment.clock.nowMs());
  }

  /** Ms between two pings at rest: longer with each that was answered. */
  get #restMs(): number {
    const { idlePingIntervalMs, idlePingIntervalMsMax } = this.#settings;
    const doublings = Math.min(Math.max(0, this.#restedPings - 1), 16);
    return Math.min(idlePingIntervalMsMax, idlePingIntervalMs * 2 ** doublings);
  }

  #countMiss(mayCount: boolean): void {
    if (!this.#heard && mayCount) this.#misses += 1;
    if (this.#heard) this.#misses = 0;
    const wasMute = this.#isMute;
    this.#isMute = this.#misses > 0 && (wasMute || this.#misses >= this.#missesUntilSilent());
    if (this.#isMute && !wasMute) this.#suspect("silent");
    if (this.#silent) this.#prolongSuspicion();
  }

  #missesUntilSilent(): number {
    const { pingIntervalMs, suspectAfterMisses: misses } = this.#settings;
    if (this.#misses < misses) return misses;
    const othersMs = Array.from(this.#peers()).flatMap((peer) =>
      peer === this ? [] : (peer.silences.longestMs() ?? []),
    );
    return missesUntilSilent({ pingIntervalMs, misses, othersMs });
  }

  #hear(nowMs: number): void {
    if (!this.#heard) this.silences.add(nowMs - this.#unheardSinceMs);
    this.#heard = true;
    this.#heardAtMs = nowMs;
  }

  #ping(nowMs: number): void {
    if (this.#heard) this.#unheardSinceMs = nowMs;
    this.#heard = false;
    this.#pingedAtMs = nowMs;
    this.#sequence += 1;
    this.#channel?.ping(this.#sequence);
  }

  /** An attempt has failed through this worker's fault. */
  noteFailure(): void {
    this.#failures += 1;
    const isProbation = this.#ejections > 0;
    if (!isProbation && this.#failures < this.#settings.ejectAfterFailures) return;
    const nowMs = this.#environment.clock.nowMs();
    if (nowMs < this.#ejectedUntilMs) return;
    this.#failures = 0;
    this.#ejections += 1;
    const ejectMs = Math.min(this.#settings.ejectMsMax, this.#settings.ejectMs * this.#ejections);
    this.#ejectedUntilMs = nowMs + ejectMs;
    this.#environment.log.warn("worker ejected", { worker: this.id, ejectMs });
  }

  get #silent(): boolean {
    return this.#stalled || this.#isMute;
  }

  #onReply(reply: WorkerReply, sentAtMs: number): void {
    if (reply.answer.kind === "failure") return;
    const nowMs = this.#environment.clock.nowMs();
    this.#hear(nowMs);
    this.#answeredAtMs = nowMs;
    this.latency.add(nowMs - sentAtMs);
    this.#failures = 0;
    if (nowMs >= this.#ejectedUntilMs) this.#ejections = 0;
  }

  /**
   * A question that was given up would have taken longer than it was waited for. Left out, slow answers would
   * be missing from what is usual, and ever more questions would seem slow.
   */
  #noteUnanswered(sentAtMs: number): void {
    const waitedMs = this.#environment.clock.nowMs() - sentAtMs;
    const usual = this.latency.percentiles();
    if (usual !== undefined && waitedMs > usual.p99Ms) this.latency.add(waitedMs);
  }

  #suspect(reason: string): void {
    this.#environment.log.warn("worker suspect", { worker: this.id, reason });
    this.#prolongSuspicion();
    for (const { listener } of this.#waiting) listener.onDoubt();
  }

  #prolongSuspicion(): void {
    this.#suspectUntilMs = this.#environment.clock.nowMs() + this.#settings.suspectMs;
  }

  #forgetMisses(): void {
    this.#heard = true;
    this.#pingedAtMs = Number.NEGATIVE_INFINITY;
    this.#misses = 0;
    this.#isMute = false;
    this.#stalled = false;
    this.#queueRows = 0;
    this.scans.note(undefined);
    this.#progressAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Closes the channel; questions under way fail. */
  close(): void {
    this.#connected = false;
    this.#channel?.close();
  }
}

/** Pings of several workers are due within one tick, although timers fire a little early or late. */
const REST_SLACK_MS = 50;
