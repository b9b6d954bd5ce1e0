// Answers GetProgram within bounds of memory, whatever routers ask for. A program may come with
// whole tables, which must be read and joined for it. So tables are limited by the worker's own
// bound, equal requests at the same time share one packed program, programs are packed one after
// the other, and only a few packed programs exist at a time.
//
//   asked ─▶ the same one exists ─▶ shared ──────┬─▶ sent in chunks as the router reads, until its
//     └─▶ waits for room ─▶ packed, one by one ─┘   deadline

import { once } from "node:events";
import type { ServerWritableStream, ServiceError } from "@grpc/grpc-js";
import { WinnowError, fingerprint, grpcStatusOf, setGraceTimer, toWinnowError } from "@winnow/core";
import type { Clock, GraceTimer } from "@winnow/core";
import type { ProgramChunk } from "./generated/winnow/shard/v1/ProgramChunk.ts";
import type { ProgramRequest__Output } from "./generated/winnow/shard/v1/ProgramRequest.ts";
import { cutDetails } from "./frames/malformed-frame.ts";
import type { ProgramQuery } from "./worker-connector.ts";

/** Bounds of programs that are being sent. */
export interface ProgramSettings {
  /** Bytes of a table that comes with a program, at most, whatever is asked for. Default 64 MiB. */
  readonly programTableBytesMax: number;
  /** Packed programs that exist at a time; further ones wait. Default 4. */
  readonly programsPackedMax: number;
  /** Milliseconds for waiting, packing and sending together. Default 60,000. */
  readonly programTimeoutMs: number;
}

/** A call of GetProgram. */
export type ProgramCall = ServerWritableStream<ProgramRequest__Output, ProgramChunk>;

interface PackedProgram {
  readonly bytes: Promise<Uint8Array>;
  senders: number;
}

const CHUNK_BYTES = 1024 * 1024;

/** Answers GetProgram. */
export class ProgramCalls {
  readonly #pack: (query: ProgramQuery) => Promise<Uint8Array>;
  readonly #clock: Clock;
  readonly #settings: ProgramSettings;
  /** Packed programs by query. */
  readonly #packed = new Map<string, PackedProgram>();
  /** Wakes the calls that wait for room. */
  readonly #waiting: (() => void)[] = [];
  /** Settles when the last packing that was begun ends; the next one begins after it. */
  #packing: Promise<unknown> = Promise.resolve();

  /** `pack` throws WinnowError NOT_FOUND for a version that is not held. */
  constructor(
    pack: (query: ProgramQuery) => Promise<Uint8Array>,
    clock: Clock,
    settings: ProgramSettings,
  ) {
    this.#pack = pack;
    this.#clock = clock;
    this.#settings = settings;
  }

  /** Answers a call; never rejects. */
  async answer(call: ProgramCall): Promise<void> {
    const { programTimeoutMs: delayMs } = this.#settings;
    const over = new Promise<void>((resolve) => {
      for (const event of ["cancelled", "close"]) call.once(event, () => resolve());
    });
    let timer: GraceTimer | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setGraceTimer(this.#clock, { delayMs }, () =>
        reject(new WinnowError("DEADLINE_EXCEEDED", `The program was not sent in ${delayMs} ms`)),
      );
    });
    try {
      await Promise.race([this.#send(call, over), over, late]);
    } catch (error) {
      call.emit("error", failureOf(error));
    } finally {
      timer?.clear();
    }
  }

  /** Sends the program no faster than the router reads. */
  async #send(call: ProgramCall, over: Promise<void>): Promise<void> {
    const query = this.#queryOf(call.request);
    const key = JSON.stringify(query);
    const isFull = (): boolean =>
      !this.#packed.has(key) && this.#packed.size >= this.#settings.programsPackedMax;
    while (isFull() && !isOver(call)) {
      await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), over]);
    }
    if (isOver(call)) return;
    const packed = this.#packedOf(key, query);
    packed.senders += 1;
    try {
      const bytes = await packed.bytes;
      for (let at = 0; at < bytes.length && !isOver(call); at += CHUNK_BYTES) {
        const isTaken = call.write({ data: bytes.subarray(at, at + CHUNK_BYTES) });
        if (!isTaken) await Promise.race([once(call, "drain"), over]);
      }
      if (!isOver(call)) call.end();
      await over;
    } finally {
      packed.senders -= 1;
      if (packed.senders === 0) {
        this.#packed.delete(key);
        for (const look of this.#waiting.splice(0)) look();
      }
    }
  }

  /** The packed program of a query: an existing one, or a new one, packed after those before it. */
  #packedOf(key: string, query: ProgramQuery): PackedProgram {
    const known = this.#packed.get(key);
    if (known !== undefined) return known;
    const bytes = this.#packing.then(() => this.#pack(query));
    this.#packing = bytes.catch(() => undefined);
    const packed = { bytes, senders: 0 };
    this.#packed.set(key, packed);
    return packed;
  }

  #queryOf(request: ProgramRequest__Output): ProgramQuery {
    const { model, version } = request;
    return {
      version: { model, version, fingerprint: fingerprint(request.fingerprint) },
      tableBytesMax: Math.min(request.table_bytes_max, this.#settings.programTableBytesMax),
    };
  }
}

/** An error in the form that grpc-js sends. */
export function failureOf(error: unknown): Partial<ServiceError> {
  const { code, message } = toWinnowError(error);
  return { code: grpcStatusOf(code), details: cutDetails(message) };
}

function isOver(call: ProgramCall): boolean {
  return call.cancelled || call.destroyed || call.writableEnded;
}
