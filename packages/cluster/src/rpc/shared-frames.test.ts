// Questions of many requests share frames to a worker, and their replies share frames back.
// Whatever happens to the others in its frame, each question gets the reply that it would have got
// alone: exactly once, or never after it was cancelled.

import { WinnowError, silentLogger } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import fc from "fast-check";
import { expect, test } from "vitest";
import { EchoWorker } from "./doubles/echo-worker.ts";
import { MemoryNetwork } from "./doubles/memory-network.ts";
import { lookupOf, rowAsked, rowReply } from "./fixtures/any-frames.ts";
import type { WorkerQuery, WorkerReply } from "./frames/frames.ts";
import { WorkerChannel } from "./shard-channel.ts";

const ADDRESS = "w0:1";

/** One step of the script; `at` chooses a question that was asked. */
type Step =
  | { readonly kind: "ask"; readonly leftMs: number }
  | { readonly kind: "cancel" | "late reply"; readonly at: number }
  | { readonly kind: "time passes"; readonly ms: number }
  | { readonly kind: "replies"; readonly order: readonly number[] }
  | { readonly kind: "stream breaks" };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .constantFrom(1000, 1000, 1, 3)
      .map((leftMs) => ({ kind: "ask", leftMs }) as const),
  },
  fc.nat(20).map((at) => ({ kind: "cancel", at }) as const),
  fc.nat(20).map((at) => ({ kind: "late reply", at }) as const),
  {
    weight: 3,
    arbitrary: fc.constantFrom(0, 1, 2).map((ms) => ({ kind: "time passes", ms }) as const),
  },
  {
    weight: 2,
    arbitrary: fc.array(fc.nat(20)).map((order) => ({ kind: "replies", order }) as const),
  },
  fc.constant({ kind: "stream breaks" } as const),
);

/** The worker answers every fifth question with a failure. */
const fails = (row: number): boolean => row % 5 === 0;

function replyOf(query: WorkerQuery): WorkerReply {
  if (!fails(rowAsked(query))) return rowReply(query);
  const error = new WinnowError("INTERNAL", "no luck");
  const answer = { kind: "failure", reason: "INTERNAL", error } as const;
  return { id: query.id, queueUs: 0, computeUs: 0, answer };
}

function textOf({ answer }: WorkerReply): string {
  if (answer.kind === "failure") return answer.reason;
  return answer.kind === "lookup" ? answer.vectors.join() : "topK";
}

interface Asked {
  readonly deadlineMs: number;
  readonly replies: string[];
  readonly cancel: () => void;
  repliesMax: number;
}

/** A channel and its worker under a script. */
class SharedChannel {
  readonly clock = new ManualClock();
  readonly asked: Asked[] = [];
  readonly #network = new MemoryNetwork(this.clock, () => 1);
  readonly #worker = new EchoWorker();
  readonly #channel: WorkerChannel;
  #replied = 0;
  #breaks = 0;

  constructor() {
    this.#worker.isHolding = true;
    this.#network.listen(ADDRESS, this.#worker);
    this.#channel = new WorkerChannel(
      {
        environment: { clock: this.clock, random: () => 1, log: silentLogger },
        connector: this.#network,
        routerId: "r1",
        defer: queueMicrotask,
      },
      {
        onAnnouncement: () => undefined,
        onPong: () => undefined,
        onDrain: () => undefined,
        onDisconnect: () => undefined,
      },
      { address: ADDRESS, reconnectMinMs: 1 },
    );
  }

  async play(step: Step): Promise<void> {
    const sent = this.#worker.batches.flat();
    switch (step.kind) {
      case "ask":
        return this.#ask(step.leftMs);
      case "cancel":
        return this.#cancel(this.asked[step.at]);
      case "late reply":
        return this.#reply(sent[step.at]);
      case "time passes":
        return await this.clock.advanceSettled(step.ms);
      case "replies": {
        const waiting = sent.slice(this.#replied);
        this.#replied = sent.length;
        const inOrder = new Set([...step.order.map((at) => waiting[at]), ...waiting]);
        for (const query of inOrder) this.#reply(query);
        return;
      }
      case "stream breaks":
        this.#breaks += 1;
        return this.#network.breakStreams(ADDRESS);
    }
  }

  /** Answers every question once more and closes the channel; gives what is left open. */
  async end(): Promise<number[]> {
    await this.clock.advanceSettled(10);
    for (const query of this.#worker.batches.flat()) this.#reply(query);
    await this.clock.advanceSettled(10);
    this.#channel.close();
    await this.clock.advanceSettled(10);
    return [this.#channel.pending, this.clock.pendingTimers];
  }

  /** The replies that a question may get. */
  endsOf(row: number): string[] {
    const ends = [fails(row) ? "INTERNAL" : String(row)];
    if (this.#breaks > 0) ends.push("DISCONNECTED");
    if (this.asked[row]!.deadlineMs <= this.clock.nowMs()) ends.push("EXPIRED");
    return ends;
  }

  #ask(leftMs: number): void {
    const replies: string[] = [];
    const deadlineMs = this.clock.nowMs() + leftMs;
    const question = lookupOf(this.asked.length, deadlineMs);
    const asked = this.#channel.ask(question, (reply) => replies.push(textOf(reply)));
    if (asked.state === "refused") return;
    this.asked.push({ deadlineMs, replies, cancel: () => asked.cancel(), repliesMax: 1 });
  }

  #cancel(asked: Asked | undefined): void {
    if (asked === undefined) return;
    asked.repliesMax = asked.replies.length;
    asked.cancel();
  }

  #reply(query: WorkerQuery | undefined): void {
    if (query !== undefined) this.#worker.links.at(-1)!.reply(replyOf(query));
  }
}

test("(S8, L2) questions that share frames are answered as each alone would be", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 60 }), async (steps) => {
      const channel = new SharedChannel();
      await channel.clock.advanceSettled(10);

      for (const step of steps) await channel.play(step);
      expect(await channel.end()).toEqual([0, 0]);
      for (const [row, { replies, repliesMax }] of channel.asked.entries()) {
        expect(replies).toHaveLength(repliesMax);
        for (const reply of replies) expect(channel.endsOf(row)).toContain(reply);
      }
    }),
    { numRuns: 150 },
  );
});
