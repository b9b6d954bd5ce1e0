// A Redis server of the simulated world, and connections to it that behave as ioredis does with the
// settings of `redis-membership.ts`: no queue while offline, commands that time out, a growing wait
// between connections. The server may be down, slow, flushed, or fail over to an older state.

import type { OpenRedis } from "@winnow/cluster";
import type { SimulatedProcess } from "./simulated-process.ts";
import type { VirtualTime } from "./virtual-time.ts";

interface Stored {
  readonly value: string;
  readonly untilMs: number;
}

interface State {
  readonly values: Map<string, Stored>;
  readonly members: Map<string, Set<string>>;
}

const COMMAND_MS_MAX = 500;
const SNAPSHOT_MS = 700;

/** The store all connections share. */
export class SimulatedRedis {
  readonly time: VirtualTime;
  isUp = true;
  /** Clients that cannot reach it. */
  readonly cutOff = new Set<string>();
  latencyMs = 0.5;
  readonly connections = new Set<SimulatedConnection>();
  #state: State = { values: new Map(), members: new Map() };
  #snapshot: State = { values: new Map(), members: new Map() };

  constructor(time: VirtualTime) {
    this.time = time;
    this.#snapshotLater();
  }

  /** How a process connects. */
  openFor(process: SimulatedProcess, client: string): OpenRedis {
    const open = (): unknown => new SimulatedConnection(this, process, client);
    return open as OpenRedis;
  }

  /** A process is gone, with its connections. */
  forget(process: SimulatedProcess): void {
    for (const connection of this.connections) {
      if (connection.process === process) connection.disconnect();
    }
  }

  stop(): void {
    this.isUp = false;
    for (const connection of this.connections) connection.break();
  }

  /** All that was stored is gone. */
  flush(): void {
    this.#state = { values: new Map(), members: new Map() };
  }

  /** A replica without the last writes takes over. */
  failOver(): void {
    this.#state = copyOf(this.#snapshot);
    for (const connection of this.connections) connection.break();
  }

  add(key: string, member: string): void {
    const members = this.#state.members.get(key) ?? new Set();
    this.#state.members.set(key, members.add(member));
  }

  remove(key: string, member: string): void {
    this.#state.members.get(key)?.delete(member);
  }

  range(key: string): string[] {
    return [...(this.#state.members.get(key) ?? [])].toSorted();
  }

  /** Sets a key without expiry if it has the expected value; "" stands for no value. */
  replace(key: string, value: string, expected: string): boolean {
    if ((this.get(key) ?? "") !== expected) return false;
    this.#state.values.set(key, { value, untilMs: Infinity });
    return true;
  }

  set(key: string, value: string, leaseMs: number): void {
    this.#state.values.set(key, { value, untilMs: this.time.nowMs + leaseMs });
  }

  get(key: string): string | null {
    const stored = this.#state.values.get(key);
    // oxlint-disable-next-line unicorn/no-null -- what Redis says of a key that is not there
    return stored === undefined || stored.untilMs <= this.time.nowMs ? null : stored.value;
  }

  publish(): void {
    for (const connection of this.connections) connection.tell();
  }

  #snapshotLater(): void {
    this.time.after(SNAPSHOT_MS, () => {
      this.#snapshot = copyOf(this.#state);
      this.#snapshotLater();
    });
  }
}

function copyOf({ values, members }: State): State {
  const copies = [...members].map(([key, ids]) => [key, new Set(ids)] as const);
  return { values: new Map(values), members: new Map(copies) };
}

type Event = "ready" | "error" | "message";

/** One connection, with the methods of ioredis that are used. */
class SimulatedConnection {
  readonly process: SimulatedProcess;
  readonly #server: SimulatedRedis;
  readonly #client: string;
  readonly #listeners: Record<Event, ((value: never) => void)[]> = {
    ready: [],
    error: [],
    message: [],
  };
  #isReady = false;
  #isSubscribed = false;
  #isEnded = false;
  #attempts = 0;
  readonly #commands = new Set<() => void>();
  #retry: ReturnType<SimulatedProcess["setTimer"]> | undefined;

  constructor(server: SimulatedRedis, process: SimulatedProcess, client: string) {
    this.#server = server;
    this.process = process;
    this.#client = client;
    server.connections.add(this);
    this.#connect();
  }

  on(event: Event, listener: (value: never) => void): this {
    this.#listeners[event].push(listener);
    return this;
  }

  get(key: string): Promise<string | null> {
    return this.#command(() => this.#server.get(key));
  }

  /** The scripts there are: those of `redis-reading.ts`, for ids and for texts, and `REPLACE` of `redis-orders.ts`. */
  eval(script: string, keyCount: number, ...words: (string | number)[]): Promise<unknown> {
    const keys = words.slice(0, keyCount).map(String);
    const values = words.slice(keyCount);
    if (script.includes("ZRANGE")) return this.#command(() => this.#server.range(keys[0]!));
    if (script.includes("MGET")) {
      return this.#command(() => keys.map((key) => this.#server.get(key)));
    }
    const [value, expected] = values.map(String);
    return this.#command(() => Number(this.#server.replace(keys[0]!, value!, expected!)));
  }

  zrem(key: string, member: string): Promise<void> {
    return this.#command(() => this.#server.remove(key, member));
  }

  publish(): Promise<void> {
    return this.#command(() => this.#server.publish());
  }

  async subscribe(): Promise<void> {
    await this.#command(() => {
      this.#isSubscribed = true;
    });
  }

  pipeline(): unknown {
    const writes: (() => void)[] = [];
    const pipeline = {
      zadd: (key: string, _score: number, member: string) => {
        writes.push(() => this.#server.add(key, member));
        return pipeline;
      },
      // oxlint-disable-next-line max-params -- Redis's own order
      set: (key: string, value: string, _unit: string, leaseMs: number) => {
        writes.push(() => this.#server.set(key, value, leaseMs));
        return pipeline;
      },
      exec: () =>
        this.#command(() => {
          for (const write of writes) write();
          // oxlint-disable-next-line unicorn/no-null -- ioredis says so of what went well
          return writes.map(() => [null, "OK"]);
        }),
    };
    return pipeline;
  }

  disconnect(): void {
    this.#isEnded = true;
    this.#isReady = false;
    this.#server.connections.delete(this);
    for (const stop of this.#commands) stop();
    if (this.#retry !== undefined) this.process.clearTimer(this.#retry);
  }

  /** The server has ended it. */
  break(): void {
    if (!this.#isReady) return;
    this.#isReady = false;
    this.#isSubscribed = false;
    this.process.receive(() => this.#reconnect());
  }

  /** Something was published. */
  tell(): void {
    if (!this.#isSubscribed || !this.#isReady || this.#isUnreachable) return;
    this.#later(() => this.#emit("message", undefined));
  }

  get #isUnreachable(): boolean {
    return this.#server.cutOff.has(this.#client);
  }

  #connect(): void {
    this.#server.time.after(2 * this.#server.latencyMs, () => {
      if (this.#isEnded || this.process.state === "dead") return;
      this.process.receive(() => {
        if (this.#isEnded) return;
        if (!this.#server.isUp || this.#isUnreachable) return this.#reconnect();
        this.#attempts = 0;
        this.#isReady = true;
        this.#emit("ready", undefined);
      });
    });
  }

  #reconnect(): void {
    if (this.#isEnded) return;
    this.#attempts += 1;
    this.#emit("error", new Error("connect ECONNREFUSED"));
    this.#retry = this.process.setTimer(Math.min(50 * this.#attempts, 500), () => this.#connect());
  }

  #command<Answer>(act: () => Answer): Promise<Answer> {
    if (!this.#isReady) return Promise.reject(new Error("Stream isn't writeable"));
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        if (!this.#commands.delete(stop)) return;
        this.process.clearTimer(timer);
        settle();
      };
      const stop = (): void => end(() => reject(new Error("Connection is closed.")));
      const timer = this.process.setTimer(COMMAND_MS_MAX, () =>
        end(() => reject(new Error("Command timed out"))),
      );
      this.#commands.add(stop);
      const settle = (how: () => void): void => this.#later(() => end(how));
      this.#server.time.after(this.#server.latencyMs, () => {
        if (this.#isUnreachable) return;
        if (!this.#server.isUp) return settle(() => reject(new Error("Connection is closed.")));
        const answer = act();
        settle(() => resolve(answer));
      });
    });
  }

  #later(run: () => void): void {
    this.#server.time.after(this.#server.latencyMs, () => this.process.receive(run));
  }

  #emit(event: Event, value: unknown): void {
    for (const listener of this.#listeners[event]) listener(value as never);
  }
}
