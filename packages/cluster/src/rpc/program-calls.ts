// GetProgram, whoever asks and for however much. A program may come with whole tables, which are read and
// joined for it: what is asked at the same time is packed once, one after the other, with tables up to the
// worker's own bound, and few packed programs exist at a time.
//
//   asked ─▶ same is being sent ─▶ shared ─▶ sent chunk by chunk, as it is read, until its deadline
//     └─▶ a packed one may be made ─▶ packed, by turns ─┘

import { once } from "node:events";
import type { ServerWritableStream, ServiceError } from "@grpc/grpc-js";
import { WinnowError, fingerprint, grpcStatusOf, setGraceTimer, toWinnowError } from "@winnow/core";
import type { Clock, GraceTimer } from "@winnow/core";
import type { ProgramChunk } from "./generated/winnow/shard/v1/ProgramChunk.ts";
import type { ProgramRequest__Output } from "./generated/winnow/shard/v1/ProgramRequest.ts";
import { cutDetails } from "./malformed-frame.ts";
import type { ProgramQuery } from "./worker-connector.ts";

/** Bounds of programs on their way. */
export interface ProgramSettings {
  /** Bytes of one table that a program may bring along, however many are asked for. Default 64 MiB. */
  readonly programTableBytesMax: number;
  /** Packed programs at a time; further ones wait. Default 4. */
  readonly programsPackedMax: number;
  /** Milliseconds for packing, or waiting for it, and sending. Default 60,000. */
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
  /** By what was asked. */
  readonly #packed = new Map<string, PackedProgram>();
  /** Those for whom there is no room. */
  readonly #waiting: (() => void)[] = [];
  /** The one that is packed now, or was last. */
  #turn: Promise<unknown> = Promise.resolve();

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

  /** Sends it no faster than the router reads. */
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

  /** What is being sent already, or is made when those before it are. */
  #packedOf(key: string, query: ProgramQuery): PackedProgram {
    const known = this.#packed.get(key);
    if (known !== undefined) return known;
    const bytes = this.#turn.then(() => this.#pack(query));
    this.#turn = bytes.catch(() => undefined);
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

/** An error as grpc-js wants it. */
export function failureOf(error: unknown): Partial<ServiceError> {
  const { code, message } = toWinnowError(error);
  return { code: grpcStatusOf(code), details: cutDetails(message) };
}

function isOver(call: ProgramCall): boolean {
  return call.cancelled || call.destroyed || call.writableEnded;
}
