// A TCP link that can be made to fail: a listener, and for each connection a second one to the real
// server. What is sent waits in a queue per direction until the fault of the moment lets it pass.
//
//   hold     bytes, ends and new connections wait: a cut, silent until it is healed
//   delay    each chunk waits so long, each way
//   rate     so many bytes a second, each way
//   reset    open connections are reset, new ones too as soon as they are made
//   refuse   nobody listens; open connections are reset
//
// It is a program, not a wire: the kernel goes on acknowledging what waits here, and a connection to a
// server that is gone is accepted and then reset. Faults below TCP need a network namespace.

import { type Server, type Socket, connect, createServer } from "node:net";
import { supplyPorts } from "../../port-supply.ts";

/** The fault of a link; an empty object is a healthy link. */
export interface LinkFault {
  readonly hold?: "both" | "to server" | "to client";
  readonly delayMs?: number;
  readonly bytesPerSecond?: number;
  readonly reset?: boolean;
  readonly refuse?: boolean;
}

/** Where a link leads. */
export interface LinkTarget {
  readonly host: string;
  readonly port: number;
}

/** Bytes that may wait in one direction before the sender is made to wait. */
const QUEUE_BYTES_MAX = 4 * 2 ** 20;
const PIECE_BYTES = 16 * 1024;

/** One link. */
export class FaultLink {
  #target: LinkTarget;
  #fault: LinkFault = {};
  readonly #server: Server;
  readonly #connections = new Set<LinkConnection>();
  #port = 0;

  private constructor(target: LinkTarget) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
      this.#accept(socket),
    );
    // The port may have been taken while nobody listened on it: the link then stays refused, which a run shows.
    this.#server.on("error", (error) => process.stderr.write(`fault link: ${error.message}\n`));
  }

  /** Opens a link on a free port of the loopback. */
  static async open(target: LinkTarget): Promise<FaultLink> {
    const link = new FaultLink(target);
    [link.#port] = (await supplyPorts(1)) as [number];
    await link.#listen();
    return link;
  }

  get port(): number {
    return this.#port;
  }

  /** Replaces the fault; what waits moves on as far as the new one lets it. */
  async set(fault: LinkFault): Promise<void> {
    const wasRefused = this.#fault.refuse === true;
    this.#fault = fault;
    if (fault.refuse === true && !wasRefused) this.#server.close();
    if (fault.refuse === true || fault.reset === true) this.reset();
    if (fault.refuse !== true && wasRefused) await this.#listen();
    for (const connection of this.#connections) connection.setFault(fault);
  }

  /** New connections go to another server; open ones are reset. */
  retarget(target: LinkTarget): void {
    this.#target = target;
    this.reset();
  }

  /** Resets every open connection once. */
  reset(): void {
    for (const connection of this.#connections) connection.reset();
  }

  close(): void {
    this.#server.close();
    this.reset();
  }

  async #listen(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.listen(this.#port, "127.0.0.1", resolve);
    });
  }

  #accept(client: Socket): void {
    if (this.#fault.reset === true) return void client.resetAndDestroy();
    const connection = new LinkConnection(client, () => this.#target, this.#fault);
    this.#connections.add(connection);
    connection.onOver = () => this.#connections.delete(connection);
  }
}

class LinkConnection {
  onOver: () => void = () => undefined;
  readonly #client: Socket;
  readonly #target: () => LinkTarget;
  readonly #toServer: LinkDirection;
  readonly #toClient: LinkDirection;
  #server: Socket | undefined;

  constructor(client: Socket, target: () => LinkTarget, fault: LinkFault) {
    this.#client = client;
    this.#target = target;
    const lost = (): void => this.reset();
    this.#toServer = new LinkDirection(client, lost);
    this.#toClient = new LinkDirection(undefined, lost);
    this.#toClient.sendTo(client);
    client.on("close", () => this.#endIfOver());
    this.setFault(fault);
  }

  setFault(fault: LinkFault): void {
    if (this.#server === undefined && fault.hold !== "both" && fault.hold !== "to server") {
      this.#connect();
    }
    this.#toServer.setFault(fault, fault.hold === "both" || fault.hold === "to server");
    this.#toClient.setFault(fault, fault.hold === "both" || fault.hold === "to client");
  }

  reset(): void {
    this.#client.resetAndDestroy();
    this.#server?.resetAndDestroy();
    this.onOver();
  }

  #connect(): void {
    const { host, port } = this.#target();
    const server = connect({ host, port, noDelay: true, allowHalfOpen: true });
    this.#server = server;
    this.#toServer.sendTo(server);
    this.#toClient.receiveFrom(server);
    server.on("close", () => this.#endIfOver());
  }

  #endIfOver(): void {
    if (this.#client.destroyed && this.#server?.destroyed !== false) this.onOver();
  }
}

interface WaitingPiece {
  /** `undefined`: the sender has ended. `"lost"`: its connection broke. */
  readonly bytes: Buffer | undefined | "lost";
  readonly dueMs: number;
}

/** One direction of a connection. */
class LinkDirection {
  #from: Socket | undefined;
  #to: Socket | undefined;
  readonly #onLost: () => void;
  readonly #queue: WaitingPiece[] = [];
  #queuedBytes = 0;
  #isHeld = false;
  #isFull = false;
  #fault: LinkFault = {};
  #nextMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(from: Socket | undefined, onLost: () => void) {
    this.#onLost = onLost;
    if (from !== undefined) this.receiveFrom(from);
  }

  receiveFrom(socket: Socket): void {
    this.#from = socket;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("end", () => this.#take(undefined));
    socket.on("error", () => this.#take("lost"));
  }

  sendTo(socket: Socket): void {
    this.#to = socket;
    socket.on("drain", () => {
      this.#isFull = false;
      this.#move();
    });
    this.#move();
  }

  setFault(fault: LinkFault, isHeld: boolean): void {
    this.#fault = fault;
    this.#isHeld = isHeld;
    this.#move();
  }

  #take(bytes: Buffer | undefined | "lost"): void {
    const dueMs = performance.now() + (this.#fault.delayMs ?? 0);
    if (bytes instanceof Buffer) {
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        this.#queue.push({ bytes: bytes.subarray(at, at + PIECE_BYTES), dueMs });
      }
      this.#queuedBytes += bytes.length;
      if (this.#queuedBytes > QUEUE_BYTES_MAX) this.#from?.pause();
    } else {
      this.#queue.push({ bytes, dueMs });
    }
    this.#move();
  }

  #move(): void {
    if (this.#to === undefined || this.#timer !== undefined) return;
    while (!this.#isHeld && !this.#isFull && this.#queue.length > 0) {
      const waitMs = Math.max(this.#queue[0]!.dueMs, this.#nextMs) - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => {
          this.#timer = undefined;
          this.#move();
        }, waitMs);
        return;
      }
      this.#pass(this.#queue.shift()!.bytes);
    }
    if (this.#queuedBytes <= QUEUE_BYTES_MAX) this.#from?.resume();
  }

  #pass(bytes: Buffer | undefined | "lost"): void {
    const to = this.#to!;
    if (bytes === "lost") return this.#onLost();
    if (bytes === undefined) return void to.end();
    this.#queuedBytes -= bytes.length;
    const { bytesPerSecond } = this.#fault;
    if (bytesPerSecond !== undefined) {
      const startMs = Math.max(this.#nextMs, performance.now());
      this.#nextMs = startMs + (1000 * bytes.length) / bytesPerSecond;
    }
    this.#isFull = !to.write(bytes);
  }
}
