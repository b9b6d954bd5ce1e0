// The network of a router in production. Each stream has a gRPC connection of its own, which closes
// with it: so a new stream resolves the name again and reaches the process that listens at the
// address, not one that an older connection still leads to. Control calls to an address share
// another connection. With TLS, a connection is made with the certificates that are in force then, and
// keeps them.

import type { ClientUnaryCall, ServiceError } from "@grpc/grpc-js";
import { WinnowError, excerpt, nextLoopTurn, setGraceTimer } from "@winnow/core";
import type { Clock } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import { decodeAnnouncement } from "../announcement/announcement-codec.ts";
import { anyAddress, parseAddress } from "../trust/worker-address.ts";
import type { AddressRules } from "../trust/worker-address.ts";
import { decodeWorkerFrame, encodeRouterFrame } from "./frames/frame-codec.ts";
import type { RouterFrame } from "./frames/frames.ts";
import type { Announcement__Output } from "./generated/winnow/shard/v1/Announcement.ts";
import type { GetOrderReply__Output } from "./generated/winnow/shard/v1/GetOrderReply.ts";
import { ClientCredentials } from "../tls/grpc-credentials.ts";
import type { ClusterTls } from "../tls/grpc-credentials.ts";
import { createClient, fromServiceError } from "./frames/shard-service.ts";
import type { ExchangeCall, ShardClient } from "./frames/shard-service.ts";
import type {
  FrameChannel,
  FrameHandlers,
  OrderMessage,
  ProgramQuery,
  WorkerConnector,
} from "./worker-connector.ts";

const PROGRAM_BYTES_MAX = 2 ** 31;

/** A call with one answer, and its timeout. */
interface UnaryCall {
  readonly address: string;
  readonly timeoutMs: number;
  /** Message of the error if the call fails. */
  readonly failing: string;
}

type UnaryReply<Answer> = (error: ServiceError | null, answer?: Answer) => void;

/** gRPC connections to workers. */
export class GrpcConnector implements WorkerConnector {
  readonly #clock: Clock;
  readonly #addresses: AddressRules;
  readonly #credentials: ClientCredentials;
  /** Clients for control calls, by address. */
  readonly #clients = new Map<string, ShardClient>();
  readonly #unfollow: () => void;
  readonly #streams = new Set<GrpcFrameChannel>();

  /** Connects only to addresses that `addresses` allows, whatever source names them. */
  constructor(clock: Clock, addresses: AddressRules = anyAddress, tls?: ClusterTls) {
    this.#clock = clock;
    this.#addresses = addresses;
    this.#credentials = new ClientCredentials(tls);
    this.#unfollow = tls?.source.follow(() => this.#forgetAll()) ?? (() => undefined);
  }

  open(address: string, handlers: FrameHandlers): FrameChannel {
    try {
      const stream = new GrpcFrameChannel(this.#connect(address), handlers, () => {
        this.#streams.delete(stream);
      });
      this.#streams.add(stream);
      return stream;
    } catch (error) {
      const failure = fromServiceError(error, "Cannot open a stream to the worker");
      setImmediate(() => handlers.onClose(failure));
      return { send: () => false, end: () => undefined, cancel: () => undefined };
    }
  }

  async describe(address: string, timeoutMs: number): Promise<Announcement> {
    const message = await this.#answer<Announcement__Output>(
      { address, timeoutMs, failing: "The worker does not answer" },
      (client, reply) => client.Describe({}, reply),
    );
    return decodeAnnouncement(message);
  }

  async tellOrder(
    address: string,
    { kind, signed }: OrderMessage,
    timeoutMs: number,
  ): Promise<void> {
    await this.#answer(
      { address, timeoutMs, failing: "The worker does not follow the order" },
      (client, reply) => client.FollowOrder({ [kind]: signed }, reply),
    );
  }

  /**
   * Has a worker drain and exit (`orders/drain-order.ts`); resolves when its drain has begun. Operators use
   * this, routers do not. @throws WinnowError with the worker's message; UNIMPLEMENTED by a release without
   * such orders
   */
  async drainWorker(address: string, signed: string, timeoutMs: number): Promise<void> {
    await this.#answer(
      { address, timeoutMs, failing: "The worker does not begin to drain" },
      (client, reply) => client.DrainWorker({ order: signed }, reply),
    );
  }

  async askOrder(address: string, timeoutMs: number): Promise<string | undefined> {
    const { order } = await this.#answer<GetOrderReply__Output>(
      { address, timeoutMs, failing: "The worker does not tell its order" },
      (client, reply) => client.GetOrder({}, reply),
    );
    return order === "" ? undefined : order;
  }

  async program(
    address: string,
    { version, tableBytesMax }: ProgramQuery,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    signal?.throwIfAborted();
    const client = this.#clientOf(address);
    const call = client.GetProgram({
      model: version.model,
      version: version.version,
      fingerprint: version.fingerprint,
      table_bytes_max: tableBytesMax,
    });
    const stop = (): void => {
      call.cancel();
      this.#giveUp(address, client);
    };
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

  /** The connection of a call that had no answer may be dead, so the next call gets a new one. */
  #giveUp(address: string, client: ShardClient): void {
    if (this.#clients.get(address) === client) this.forget(address);
  }

  forget(address: string): void {
    this.#clients.get(address)?.close();
    this.#clients.delete(address);
  }

  close(): void {
    this.#unfollow();
    for (const stream of this.#streams) stream.cancel();
    this.#forgetAll();
  }

  #forgetAll(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  /** The answer to a unary call within `timeoutMs`. */
  #answer<Answer>(
    { address, timeoutMs, failing }: UnaryCall,
    begin: (client: ShardClient, reply: UnaryReply<Answer>) => ClientUnaryCall,
  ): Promise<Answer> {
    const client = this.#clientOf(address);
    return new Promise((resolve, reject) => {
      const call = begin(client, (error, answer) => {
        timer.clear();
        if (error !== null) reject(fromServiceError(error, failing));
        else resolve(answer as Answer);
      });
      const timer = setGraceTimer(this.#clock, { delayMs: timeoutMs }, () => {
        reject(
          new WinnowError("DEADLINE_EXCEEDED", `No answer from the worker in ${timeoutMs} ms`),
        );
        call.cancel();
        this.#giveUp(address, client);
      });
    });
  }

  #clientOf(address: string): ShardClient {
    const known = this.#clients.get(address);
    if (known !== undefined) return known;
    const client = this.#connect(address);
    this.#clients.set(address, client);
    return client;
  }

  #connect(address: string): ShardClient {
    const fault = this.#addresses.faultOf(address);
    if (fault !== undefined) {
      const text = `Workers are not connected to at "${excerpt(address)}": ${fault}`;
      throw new WinnowError("PERMISSION_DENIED", text);
    }
    const host = parseAddress(address)?.host ?? address;
    return createClient(address, this.#credentials.of(host));
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
  return await joined(parts, bytes);
}

/** Bytes that are copied between two looks at other work: a millisecond or two. */
const COPIED_BYTES = 2 ** 22;

/** All parts in one array. A large one takes a tenth of a second for each hundred megabytes, in turns. */
async function joined(parts: readonly Uint8Array[], bytes: number): Promise<Uint8Array> {
  const whole = new Uint8Array(bytes);
  let at = 0;
  let since = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
    since += part.length;
    if (since < COPIED_BYTES) continue;
    since = 0;
    await nextLoopTurn();
  }
  return whole;
}

/**
 * One Exchange call and its connection. Closes exactly once: at the call's end or error, at a
 * malformed frame, or by `cancel`.
 *
 * @internal tests give it a call of their own
 */
export class GrpcFrameChannel implements FrameChannel {
  readonly #client: ShardClient;
  readonly #call: ExchangeCall;
  readonly #handlers: FrameHandlers;
  readonly #onOver: () => void;
  #isClosed = false;
  #isEnded = false;

  constructor(client: ShardClient, handlers: FrameHandlers, onOver: () => void) {
    this.#client = client;
    const call = client.Exchange();
    this.#call = call;
    this.#handlers = handlers;
    this.#onOver = onOver;
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
    this.#call.cancel();
    this.#leave();
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
    this.#leave();
    this.#handlers.onClose(error);
  }

  #leave(): void {
    this.#isClosed = true;
    this.#client.close();
    this.#onOver();
  }
}
