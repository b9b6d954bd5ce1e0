// The network of a router in production: one gRPC connection per worker for as long as the worker is
// a member, one long-lived stream on it (a unary call costs ten times the CPU).

import type { ClientUnaryCall, ServiceError } from "@grpc/grpc-js";
import { WinnowError } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { Announcement } from "../announcement.ts";
import { decodeAnnouncement } from "../announcement-codec.ts";
import { decodeWorkerFrame, encodeRouterFrame } from "./frame-codec.ts";
import type { RouterFrame } from "./frames.ts";
import type { Announcement__Output } from "./generated/winnow/shard/v1/Announcement.ts";
import { encodeModelsOrder } from "./models-order.ts";
import type { ModelsOrder } from "./models-order.ts";
import { createClient, fromServiceError } from "./shard-service.ts";
import type { ExchangeCall, ShardClient } from "./shard-service.ts";
import type {
  FrameChannel,
  FrameHandlers,
  ProgramQuery,
  WorkerConnector,
} from "./worker-connector.ts";

const PROGRAM_BYTES_MAX = 2 ** 31;

/** gRPC connections to workers, by address. */
export class GrpcConnector implements WorkerConnector {
  readonly #clock: Clock;
  readonly #clients = new Map<string, ShardClient>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  open(address: string, handlers: FrameHandlers): FrameChannel {
    try {
      return new GrpcFrameChannel(this.#clientOf(address).Exchange(), handlers);
    } catch (error) {
      const failure = fromServiceError(error, "Cannot open a stream to the worker");
      setImmediate(() => handlers.onClose(failure));
      return { send: () => false, end: () => undefined, cancel: () => undefined };
    }
  }

  async describe(address: string, timeoutMs: number): Promise<Announcement> {
    const client = this.#clientOf(address);
    const message = await this.#answer<Announcement__Output>(
      (reply) => client.Describe({}, reply),
      timeoutMs,
      "The worker does not answer",
    );
    return decodeAnnouncement(message);
  }

  async setModels(address: string, order: ModelsOrder, timeoutMs: number): Promise<void> {
    const message = encodeModelsOrder(order);
    const client = this.#clientOf(address);
    await this.#answer(
      (reply) => client.SetModels(message, reply),
      timeoutMs,
      "The worker does not take the models",
    );
  }

  async program(
    address: string,
    { version, tableBytesMax }: ProgramQuery,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    signal?.throwIfAborted();
    const call = this.#clientOf(address).GetProgram({
      model: version.model,
      version: version.version,
      fingerprint: version.fingerprint,
      table_bytes_max: tableBytesMax,
    });
    const stop = (): void => call.cancel();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      return await joinChunks(call as AsyncIterable<{ readonly data: Buffer }>);
    } catch (error) {
      signal?.throwIfAborted();
      throw fromServiceError(error, `Cannot fetch the program of ${version.model}`);
    } finally {
      signal?.removeEventListener("abort", stop);
      call.cancel();
    }
  }

  forget(address: string): void {
    this.#clients.get(address)?.close();
    this.#clients.delete(address);
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  /** The answer to a unary call, for which it waits so long at most. */
  #answer<Answer>(
    begin: (reply: (error: ServiceError | null, answer?: Answer) => void) => ClientUnaryCall,
    timeoutMs: number,
    failing: string,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const call = begin((error, answer) => {
        this.#clock.clearTimer(timer);
        if (error !== null) reject(fromServiceError(error, failing));
        else resolve(answer as Answer);
      });
      const timer = this.#clock.setTimer(timeoutMs, () => {
        reject(
          new WinnowError("DEADLINE_EXCEEDED", `No answer from the worker in ${timeoutMs} ms`),
        );
        call.cancel();
      });
    });
  }

  #clientOf(address: string): ShardClient {
    const known = this.#clients.get(address);
    if (known !== undefined) return known;
    const client = createClient(address);
    this.#clients.set(address, client);
    return client;
  }
}

async function joinChunks(chunks: AsyncIterable<{ readonly data: Buffer }>): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const { data } of chunks) {
    bytes += data.length;
    if (bytes > PROGRAM_BYTES_MAX) {
      throw new WinnowError("RESOURCE_EXHAUSTED", "A program takes at most 2 GiB");
    }
    parts.push(data);
  }
  return new Uint8Array(Buffer.concat(parts));
}

/** One Exchange call. Closes once: by its status, by a malformed frame, or by `cancel`. */
class GrpcFrameChannel implements FrameChannel {
  readonly #call: ExchangeCall;
  readonly #handlers: FrameHandlers;
  #isClosed = false;
  #isEnded = false;

  constructor(call: ExchangeCall, handlers: FrameHandlers) {
    this.#call = call;
    this.#handlers = handlers;
    call.on("data", (bytes: Buffer) => this.#receive(bytes));
    call.on("drain", () => {
      if (!this.#isClosed) handlers.onWritable();
    });
    call.on("error", (error) => this.#close(fromServiceError(error, "The stream broke off")));
    call.on("end", () => this.#close(undefined));
  }

  send(frame: RouterFrame): boolean {
    if (this.#isClosed || this.#isEnded) return false;
    return this.#call.write(encodeRouterFrame(frame));
  }

  end(): void {
    if (this.#isClosed || this.#isEnded) return;
    this.#isEnded = true;
    this.#call.end();
  }

  cancel(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#call.cancel();
  }

  #receive(bytes: Buffer): void {
    if (this.#isClosed) return;
    let frame;
    try {
      frame = decodeWorkerFrame(bytes);
    } catch (error) {
      this.#call.cancel();
      return this.#close(error as WinnowError);
    }
    this.#handlers.onFrame(frame);
  }

  #close(error: WinnowError | undefined): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#handlers.onClose(error);
  }
}
