// The compute side as the event loop sees it: `Compute` over a message port. When the thread behind
// the port ends unasked, or says that its device is lost, every request under way and every later
// one fails with UNAVAILABLE.

import { ThreadCaller, WinnowError, nextLoopTurn, settledWithin } from "@winnow/core";
import type { Clock, ThreadPort, ThreadProblem } from "@winnow/core";

import { requestBuffers } from "./compute-channel.ts";
import type { ComputeAside, ComputeRequest } from "./compute-channel.ts";
import type { LoadedPartition } from "./compute-host.ts";
import type {
  Compute,
  ComputeDevice,
  ComputeFailure,
  ComputeMemory,
  ContentHandle,
  LoadedReplica,
  LookupBatch,
  LookupBatchAnswer,
  OpenedVersion,
  ReplicaName,
  TableTarget,
  TopKBatch,
  TopKBatchAnswer,
  TopKScan,
  VersionDirectory,
} from "./compute.ts";
import { InlineLookups } from "./inline/inline-lookups.ts";
import { InlineTables } from "./inline/inline-tables.ts";
import type { InlineTablesParts } from "./inline/inline-tables.ts";
import type { ProgressCounter } from "./progress-counter.ts";
import { joinAsks, answersOf } from "./search/scan-answers.ts";

/** What a client needs. */
export interface ComputeClientParts {
  readonly port: ThreadPort;
  readonly progress: ProgressCounter;
  readonly device: ComputeDevice;
  readonly memory: ComputeMemory;
  readonly clock: Clock;
  /** The tables that the event loop may search itself. Default: none. */
  readonly inline?: Pick<InlineTablesParts, "valuesMax" | "openSearch"> | undefined;
  /** Ends the thread once it has shut down. */
  readonly end: () => Promise<void>;
}

const SHUTDOWN_MS_MAX = 2000;

/** Asks the compute thread. */
export class ComputeClient implements Compute {
  readonly device: ComputeDevice;
  readonly #parts: ComputeClientParts;
  readonly #calls: ThreadCaller<ComputeRequest, ComputeAside>;
  readonly #inline: InlineTables;
  readonly #lookups: InlineLookups;
  #memory: ComputeMemory;
  #failure: ComputeFailure | undefined;
  #failureListener: ((failure: ComputeFailure) => void) | undefined;
  #isServing = false;
  #isEnding = false;

  constructor(parts: ComputeClientParts) {
    this.#parts = parts;
    this.device = parts.device;
    this.#memory = parts.memory;
    const { clock, progress, inline = { valuesMax: 0, openSearch: () => undefined } } = parts;
    const inlineParts = { ...inline, clock, progress, turn: nextLoopTurn };
    this.#inline = new InlineTables(inlineParts);
    this.#lookups = new InlineLookups(inlineParts);
    this.#calls = new ThreadCaller(parts.port, (aside) => {
      if ("lost" in aside) this.#loseDevice(aside.lost);
      else if ("copied" in aside) this.#inline.addCopy(aside.copied);
      else if ("masked" in aside) this.#inline.addMask(aside.masked);
      else if ("dropped" in aside) this.#inline.dropAdmitted(aside.dropped);
      else this.#memory = aside.memory;
    });
  }

  get memory(): ComputeMemory {
    return this.#memory;
  }

  get progress(): number {
    return this.#parts.progress.value;
  }

  get pending(): number {
    return this.#calls.pending;
  }

  open(from: VersionDirectory, siblings: readonly ContentHandle[]): Promise<OpenedVersion> {
    return this.#ask({ kind: "open", from, siblings, isServing: this.#isServing });
  }

  async load(name: ReplicaName, rowsOf?: ContentHandle): Promise<LoadedReplica> {
    const { shared, sharedKeyed, ...loaded } = await this.#ask<LoadedPartition>({
      kind: "load",
      name,
      rowsOf,
    });
    if (this.#failure === undefined) {
      this.#inline.add(name, shared);
      if (sharedKeyed !== undefined) this.#lookups.add(name, sharedKeyed);
    }
    return loaded;
  }

  async release(name: ReplicaName): Promise<void> {
    this.#inline.drop(name);
    this.#lookups.drop(name);
    await this.#ask({ kind: "release", name });
    // Once more, because a load of this partition that was under way may have ended after the release was
    // asked for.
    this.#inline.drop(name);
    this.#lookups.drop(name);
  }

  async close(handle: ContentHandle): Promise<void> {
    this.#inline.dropContent(handle);
    this.#lookups.dropContent(handle);
    await this.#ask({ kind: "close", handle });
    this.#inline.dropContent(handle);
    this.#lookups.dropContent(handle);
  }

  program(handle: ContentHandle, tableBytesMax: number): Promise<Uint8Array> {
    return this.#ask({ kind: "program", handle, tableBytesMax });
  }

  prepareFilters(
    target: TableTarget,
    texts: readonly string[],
    signal?: AbortSignal,
  ): Promise<void> {
    return this.#ask({ kind: "filters", target, texts }, signal);
  }

  async topK(batch: TopKBatch, signal?: AbortSignal): Promise<TopKBatchAnswer> {
    this.#isServing = true;
    const atOnce = signal?.aborted === true ? undefined : this.#inline.answer(batch);
    if (atOnce !== undefined) return atOnce;
    const { asks } = batch;
    const joined = { ...batch, asks: joinAsks(asks) };
    const end = this.#inline.overlap.begin(asks.length);
    const notePace = this.#inline.paceOf(batch);
    try {
      const scan = await this.#ask<TopKScan>({ kind: "topK", batch: joined }, signal);
      const { waitUs, computeUs } = scan;
      notePace?.(computeUs / 1000);
      return { answers: answersOf(scan, asks), waitUs, computeUs };
    } finally {
      end();
    }
  }

  async lookup(batch: LookupBatch): Promise<LookupBatchAnswer> {
    this.#isServing = true;
    const atOnce = this.#lookups.answer(batch);
    if (atOnce !== undefined) return atOnce;
    const end = this.#inline.overlap.begin(batch.asks.length);
    try {
      return await this.#ask({ kind: "lookup", batch });
    } finally {
      end();
    }
  }

  onFailure(listener: (failure: ComputeFailure) => void): void {
    this.#failureListener = listener;
    if (this.#failure !== undefined) listener(this.#failure);
  }

  async shutdown(): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#inline.clear();
    this.#lookups.clear();
    if (this.#failure === undefined) {
      // A thread that does not answer the shutdown is ended anyway.
      const shutdown = this.#ask({ kind: "shutdown" });
      await settledWithin(this.#parts.clock, SHUTDOWN_MS_MAX, shutdown);
    }
    await this.#parts.end();
    this.#calls.end(new WinnowError("UNAVAILABLE", "The worker is closing"));
  }

  /** Fails all requests, because the thread has ended. The code that watches the thread calls it. */
  fail(cause: Error): void {
    const message = `The compute thread ended: ${cause.message}`;
    this.#fail({ lost: "thread", error: new WinnowError("UNAVAILABLE", message, { cause }) });
  }

  /** Fails all requests, because the device is lost: the thread lives on but cannot compute any more. */
  #loseDevice({ code, message }: ThreadProblem): void {
    this.#fail({ lost: "device", error: new WinnowError(code, message) });
  }

  #fail(failure: ComputeFailure): void {
    if (this.#failure !== undefined || this.#isEnding) return;
    this.#failure = failure;
    this.#inline.clear();
    this.#lookups.clear();
    this.#calls.end(failure.error);
    this.#failureListener?.(failure);
  }

  #ask<Value>(request: ComputeRequest, signal?: AbortSignal): Promise<Value> {
    return this.#calls.call(request, { transfer: requestBuffers(request), signal });
  }
}
