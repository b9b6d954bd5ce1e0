// A router reduced to what worker tests need: real gRPC streams to some workers, questions split by
// what each worker announces, partial answers merged.

import { GrpcConnector, WorkerChannel } from "@winnow/cluster";
import type { Announcement, Question, WorkerAsk, WorkerReply } from "@winnow/cluster";
import { mergeTopK, silentLogger, systemClock } from "@winnow/core";
import type { VersionKey } from "@winnow/core";

const ENVIRONMENT = { clock: systemClock, random: () => 0.5, log: silentLogger };

/** One worker as this client sees it. */
interface Reached {
  readonly channel: WorkerChannel;
  announcement: Announcement | undefined;
  isDrained: boolean;
}

/** An item that was found. */
export interface Found {
  readonly row: number;
  readonly score: number;
  readonly id: string;
}

/** Streams to workers. */
export class TestRouter {
  readonly connector = new GrpcConnector(systemClock);
  readonly #workers: readonly Reached[];

  constructor(addresses: readonly string[]) {
    this.#workers = addresses.map((address) => {
      const reached: { announcement: Announcement | undefined; isDrained: boolean } = {
        announcement: undefined,
        isDrained: false,
      };
      const channel = new WorkerChannel(
        { environment: ENVIRONMENT, connector: this.connector, routerId: "test" },
        {
          onAnnouncement: (announcement) => (reached.announcement = announcement),
          onPong: () => undefined,
          onDrain: () => (reached.isDrained = true),
          onDisconnect: () => (reached.announcement = undefined),
        },
        { address },
      );
      return Object.assign(reached, { channel });
    });
  }

  get announcements(): (Announcement | undefined)[] {
    return this.#workers.map(({ announcement }) => announcement);
  }

  get drained(): boolean[] {
    return this.#workers.map(({ isDrained }) => isDrained);
  }

  /** Asks worker `at` and waits for its reply. */
  ask(at: number, question: Omit<Question, "deadlineMs">): Promise<WorkerReply> {
    const deadlineMs = systemClock.nowMs() + 5000;
    return new Promise((resolve, reject) => {
      const asked = this.#workers[at]?.channel.ask({ ...question, deadlineMs }, resolve);
      if (asked?.state !== "asked") reject(new Error(`refused: ${asked?.reason}`));
    });
  }

  /** For each worker, the partitions of a table that it is the first to announce. */
  plan(version: number, table: number): Uint16Array[] {
    const taken = new Set<number>();
    return this.#workers.map(({ announcement }) => {
      const holding = announcement?.versions.find((each) => each.version === version);
      const held = holding?.tables.find((each) => each.table === table)?.held ?? [];
      const own = held.map(({ partition }) => partition).filter((each) => !taken.has(each));
      for (const partition of own) taken.add(partition);
      return Uint16Array.from(own);
    });
  }

  /** The best rows of a whole table for one query, with their ids. */
  async topK(
    version: VersionKey,
    table: number,
    ask: WorkerAsk & { kind: "topK" },
  ): Promise<Found[]> {
    const plan = this.plan(version.version, table);
    const replies = await Promise.all(
      plan.map(async (partitions, at) =>
        partitions.length === 0 ? undefined : this.ask(at, { version, table, partitions, ask }),
      ),
    );
    const answers = replies
      .filter((reply) => reply !== undefined)
      .map(({ answer }) => {
        if (answer.kind !== "topK") throw new Error(`not answered: ${JSON.stringify(answer)}`);
        return answer;
      });
    const merged = mergeTopK(
      answers.map(({ block }) => block),
      ask.k,
    );
    return Array.from({ length: merged.counts[0] ?? 0 }, (_, position) => {
      const ids = answers[merged.blocks[position]!]?.ids;
      if (ids?.dtype !== "string") throw new Error("no string ids");
      return {
        row: merged.rows[position]!,
        score: merged.scores[position]!,
        id: ids.data.textAt(merged.positions[position]!),
      };
    });
  }

  close(): void {
    for (const { channel } of this.#workers) channel.close();
    this.connector.close();
  }
}
