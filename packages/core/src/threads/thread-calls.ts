// Calls between two threads: numbered requests one way, one answer to each the other way, arrays
// transferred. Both ends live in this file, so that they cannot drift apart.
//
//   ThreadCaller ──{ id, request }──▶ answerCalls      the other thread answers in any order
//                ──{ cancel: id }───▶                  nobody waits for that answer any more
//                ◀──{ id, value | problem, aside? }──
//                ◀──{ aside }──                        unasked: said to whoever calls

import workerThreads from "node:worker_threads";
import { WinnowError, toWinnowError } from "../errors/errors.ts";
import type { ErrorCode } from "../errors/errors.ts";
import { IdTable } from "../memory/id-table.ts";
import { Outstanding } from "../memory/outstanding.ts";
import type { Signal } from "../time/signal.ts";

/** One end of a message channel: a MessagePort, or a thread seen from outside. */
export interface ThreadPort {
  postMessage(message: unknown, transfer: readonly ArrayBuffer[]): void;
  on(event: "message", listener: (message: unknown) => void): unknown;
}

/** An error in a form that can be sent between threads. */
export interface ThreadProblem {
  readonly code: ErrorCode;
  readonly message: string;
}

/** What a request is answered with, and the memory that goes along: its sender loses it. */
export interface ThreadAnswer {
  readonly value: unknown;
  readonly transfer?: readonly ArrayBuffer[];
}

interface ToAnswerer<Request> {
  readonly id: number;
  readonly request: Request;
}

interface Cancellation {
  readonly cancel: number;
}

interface ToCaller<Aside> {
  /** Of the request that this answers; absent where there is an aside only. */
  readonly id?: number;
  readonly value?: unknown;
  readonly problem?: ThreadProblem;
  readonly aside?: Aside | undefined;
}

interface PendingCall {
  // The value is what the request asked for: both ends of a channel are typed by its requests.
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

/** Options of one call. */
export interface CallOptions {
  /** Memory to be transferred with the request. */
  readonly transfer?: readonly ArrayBuffer[];
  /** Tells the other thread, when aborted, that nobody waits: it still answers. */
  readonly signal?: Signal | undefined;
}

/** The end of a channel that asks. */
export class ThreadCaller<Request, Aside = never> {
  readonly #port: ThreadPort;
  readonly #pending = new Outstanding<PendingCall>();
  #ended: Error | undefined;

  /** `onAside` hears what is said beside answers, before the answer that it came with. */
  constructor(port: ThreadPort, onAside?: (aside: Aside) => void) {
    this.#port = port;
    port.on("message", (message) => {
      const { id, aside, value, problem } = message as ToCaller<Aside>;
      if (aside !== undefined) onAside?.(aside);
      if (id !== undefined) this.#settle(id, value, problem);
    });
  }

  /** Calls without an answer yet. */
  get pending(): number {
    return this.#pending.size;
  }

  /**
   * Sends a request. @throws WinnowError as the other thread says; the reason given to `end`; a
   * DataCloneError where the request cannot be sent
   */
  call<Value>(request: Request, { transfer = [], signal }: CallOptions = {}): Promise<Value> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    return new Promise<Value>((resolve, reject) => {
      const id = this.#pending.add({ resolve, reject });
      this.#send({ id, request }, transfer);
      const cancel = (): void => {
        if (this.#pending.get(id) !== undefined)
          this.#port.postMessage({ cancel: id } satisfies Cancellation, []);
      };
      signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  /** No answer will come any more: all pending calls fail with `reason`, and so do later ones. */
  end(reason: Error): void {
    this.#ended ??= reason;
    for (const [id, { reject }] of this.#pending.entries()) {
      this.#pending.delete(id);
      reject(reason);
    }
  }

  #send(message: ToAnswerer<Request>, transfer: readonly ArrayBuffer[]): void {
    try {
      this.#port.postMessage(message, ownMemory(transfer));
    } catch (error) {
      this.#pending.delete(message.id);
      throw error;
    }
  }

  #settle(id: number, value: unknown, problem: ThreadProblem | undefined): void {
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    if (problem === undefined) call?.resolve(value as never);
    else call?.reject(new WinnowError(problem.code, problem.message));
  }
}

/** How a thread answers. */
export interface AnswererParts<Request, Aside> {
  /** Answers one request. Requests run side by side; what it throws is the answer's problem. */
  readonly perform: (request: Request, signal: AbortSignal) => ThreadAnswer | Promise<ThreadAnswer>;
  /** Said along with every answer, so that nobody has to ask for it. */
  readonly aside?: () => Aside;
}

/**
 * Answers the requests that arrive on a port, until it is closed. Returns what says something unasked.
 */
export function answerCalls<Request, Aside = never>(
  port: ThreadPort,
  { perform, aside }: AnswererParts<Request, Aside>,
): (aside: Aside) => void {
  const send = (message: ToCaller<Aside>, transfer: readonly ArrayBuffer[] = []): void =>
    port.postMessage(message, ownMemory(transfer));
  const running = new IdTable<AbortController>();
  const answer = async ({ id, request }: ToAnswerer<Request>): Promise<void> => {
    const controller = new AbortController();
    running.set(id, controller);
    try {
      const { value, transfer } = await perform(request, controller.signal);
      send({ id, value, aside: aside?.() }, transfer);
    } catch (error) {
      const { code, message } = toWinnowError(error);
      send({ id, problem: { code, message }, aside: aside?.() });
    } finally {
      running.delete(id);
    }
  };
  port.on("message", (message) => {
    const received = message as ToAnswerer<Request> | Cancellation;
    if ("cancel" in received) {
      const reason = new WinnowError("CANCELLED", "Nobody waits for this answer");
      running.get(received.cancel)?.abort(reason);
    } else {
      void answer(received); // Never rejects: failures are answers.
    }
  });
  return (unasked) => send({ aside: unasked });
}

/** Newer versions of Node have it; @types/node of the oldest that Winnow runs on does not know it. */
const { isMarkedAsUntransferable } = workerThreads as {
  readonly isMarkedAsUntransferable?: (memory: ArrayBuffer) => boolean;
};

/**
 * Memory that can be transferred. That in which Node keeps many small Buffers cannot: Node 20 copies it in silence, newer
 * versions throw unless it is left out, and then copy it.
 */
function ownMemory(transfer: readonly ArrayBuffer[]): readonly ArrayBuffer[] {
  if (isMarkedAsUntransferable === undefined || !transfer.some(isMarkedAsUntransferable)) {
    return transfer;
  }
  return transfer.filter((memory) => !isMarkedAsUntransferable(memory));
}

/** Each buffer once, as transferring one twice is refused. */
export function transferOf(buffers: readonly ArrayBufferLike[]): ArrayBuffer[] {
  return [...new Set(buffers as readonly ArrayBuffer[])];
}
