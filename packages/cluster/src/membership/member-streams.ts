// A worker's streams to the other members of a fixed list. Each member sends its announcement
// whenever it changes, as it does to routers, so that it need not be polled. A stream is quiet
// while nothing changes; pings ask whether the member lives and which workers it hears. A broken
// stream is not opened again here: `static-membership.ts`, which judges members, decides when.
//
//   opening ── first announcement ──▶ open ── ping unanswered ──▶ doubtful ── any frame ──▶ open
//      └──────────────────────────────┴───── breaks ─────────────────┴──▶ removed

import { setGraceTimer } from "@winnow/core";
import type { Environment, GraceTimer, WinnowError, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { HeardWorker, Pong } from "../rpc/frames/frames.ts";
import { WorkerChannel } from "../rpc/shard-channel.ts";
import type { WorkerConnector } from "../rpc/worker-connector.ts";
import type { SilentMember } from "./membership.ts";

/** Dependencies of the streams. */
export interface MemberStreamsParts {
  readonly environment: Environment;
  readonly connector: WorkerConnector;
  /** This process, for the other side's log. */
  readonly name: string;
}

/** Receives the events of the streams. */
export interface MemberStreamsListener {
  onAnnouncement(member: SilentMember, announcement: Announcement): void;
  /** A ping sent at `sentAtMs` was answered; `heard`: workers that the member hears. */
  onPong(member: SilentMember, sentAtMs: number, heard: readonly HeardWorker[]): void;
  /** A ping sent at `sentAtMs` was not answered in time. */
  onUnanswered(member: SilentMember, sentAtMs: number): void;
  /** The stream is over; `wasOpen`: an announcement had come, and no ping was unanswered; `error`: why, unless ended. */
  onEnd(member: SilentMember, wasOpen: boolean, error: WinnowError | undefined): void;
}

interface MemberStream {
  readonly channel: WorkerChannel;
  state: "opening" | "open" | "doubtful";
  sequence: number;
  sentAtMs: number;
  /** While a ping is unanswered. */
  timer: GraceTimer | undefined;
}

/** Timeout of a ping. A member busy with models may take longer, and is then asked by Describe. */
const PONG_MS = 300;
/** A stream without a ping for so long gets one: the other side ends streams that are silent. */
const QUIET_MS_MAX = 60_000;

/** At most one stream to each member. */
export class MemberStreams {
  readonly #parts: MemberStreamsParts;
  readonly #listener: MemberStreamsListener;
  readonly #streams = new Map<WorkerId, MemberStream>();

  constructor(parts: MemberStreamsParts, listener: MemberStreamsListener) {
    this.#parts = parts;
    this.#listener = listener;
  }

  /** Whether a stream to the member is open, so that its announcements come without asking. */
  has(id: WorkerId): boolean {
    return this.#streams.get(id)?.state === "open";
  }

  /** Whether the member should be pinged, so that it does not end the stream as silent. */
  isQuiet(id: WorkerId): boolean {
    const stream = this.#streams.get(id);
    if (stream?.state !== "open") return false;
    return this.#parts.environment.clock.nowMs() - stream.sentAtMs >= QUIET_MS_MAX;
  }

  /** Opens a stream, unless there is one that is not doubtful. A doubtful one is replaced. */
  open(member: SilentMember): void {
    const known = this.#streams.get(member.workerId);
    if (known !== undefined && known.state !== "doubtful") return;
    if (known !== undefined) this.#drop(known);
    const { environment, connector, name } = this.#parts;
    const channel: WorkerChannel = new WorkerChannel(
      { environment, connector, routerId: name },
      {
        onAnnouncement: (announcement) => this.#onAnnouncement(member, stream, announcement),
        onPong: (pong) => this.#onPong(member, stream, pong),
        onDrain: () => undefined,
        onDisconnect: (error) => this.#onEnd(member, stream, error),
      },
      { address: member.address },
    );
    const stream: MemberStream = {
      channel,
      state: "opening",
      sequence: 0,
      sentAtMs: environment.clock.nowMs(),
      timer: undefined,
    };
    this.#streams.set(member.workerId, stream);
  }

  /**
   * Asks a member whether it lives and whom it hears, unless a ping is unanswered already; if `inDoubt`,
   * in any case, so that it learns that somebody does not answer.
   */
  ping(member: SilentMember, inDoubt = false): void {
    const stream = this.#streams.get(member.workerId);
    if (stream === undefined || stream.state === "opening") return;
    if (stream.timer !== undefined && !inDoubt) return;
    const isNew = stream.timer === undefined;
    const { clock } = this.#parts.environment;
    if (isNew) {
      stream.sequence += 1;
      stream.sentAtMs = clock.nowMs();
    }
    stream.channel.ping(stream.sequence, { wantsHeard: true, ...(inDoubt && { inDoubt }) });
    if (!isNew) return;
    stream.timer = setGraceTimer(clock, { delayMs: PONG_MS }, () => {
      stream.timer = undefined;
      if (this.#streams.get(member.workerId) !== stream) return;
      stream.state = "doubtful";
      this.#listener.onUnanswered(member, stream.sentAtMs);
    });
  }

  /** Ends the stream to a member and reports `onEnd`. */
  end(member: SilentMember): void {
    const stream = this.#streams.get(member.workerId);
    if (stream === undefined) return;
    this.#streams.delete(member.workerId);
    this.#drop(stream);
    this.#listener.onEnd(member, false, undefined);
  }

  /** Ends all streams. */
  close(): void {
    for (const stream of this.#streams.values()) this.#drop(stream);
    this.#streams.clear();
  }

  #drop(stream: MemberStream): void {
    stream.timer?.clear();
    stream.timer = undefined;
    stream.channel.close();
  }

  #onAnnouncement(member: SilentMember, stream: MemberStream, announcement: Announcement): void {
    if (this.#streams.get(member.workerId) !== stream) return;
    const isNew = stream.state === "opening";
    stream.state = "open";
    this.#listener.onAnnouncement(member, announcement);
    // The first ping tells the member that a worker listens here, which pings more seldom than a
    // router.
    if (isNew) this.ping(member);
  }

  #onPong(member: SilentMember, stream: MemberStream, { sequence, heard = [] }: Pong): void {
    if (this.#streams.get(member.workerId) !== stream || sequence !== stream.sequence) return;
    stream.timer?.clear();
    stream.timer = undefined;
    stream.state = "open";
    this.#listener.onPong(member, stream.sentAtMs, heard);
  }

  #onEnd(member: SilentMember, stream: MemberStream, error: WinnowError | undefined): void {
    if (this.#streams.get(member.workerId) !== stream) return;
    this.#streams.delete(member.workerId);
    this.#drop(stream);
    this.#listener.onEnd(member, stream.state === "open", error);
  }
}
