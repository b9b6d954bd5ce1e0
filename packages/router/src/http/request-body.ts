// The bytes of a request's body, bounded three ways: by body, by all bodies together, and unpacked.
// A body is packed if Content-Encoding contains "gzip"; one that does not unpack counts as empty,
// as in TensorFlow Serving.

import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { WinnowError } from "@winnow/core";
import { RefusedBody } from "./http-answer.ts";

const unpack = promisify(gunzip);

/** How much may be held. */
export interface BodyLimits {
  readonly bodyBytesMax: number;
  readonly bodyBytesInFlightMax: number;
}

/** Bytes held by all requests together; each gives back what it took. */
export class BodyBudget {
  readonly #limits: BodyLimits;
  #held = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Bytes held now. */
  get heldBytes(): number {
    return this.#held;
  }

  /** Starts an account for one request; close it when the body is no longer needed. */
  open(): BodyAccount {
    return new BodyAccount({
      take: (bytes) => {
        if (this.#held + bytes > this.#limits.bodyBytesInFlightMax) {
          throw new WinnowError(
            "UNAVAILABLE",
            `All requests together hold more than ${this.#limits.bodyBytesInFlightMax} bytes; ` +
              "try again",
          );
        }
        this.#held += bytes;
      },
      give: (bytes) => {
        this.#held -= bytes;
      },
      limits: this.#limits,
    });
  }
}

interface Purse {
  readonly take: (bytes: number) => void;
  readonly give: (bytes: number) => void;
  readonly limits: BodyLimits;
}

/** What one request holds. */
export class BodyAccount {
  readonly #purse: Purse;
  #taken = 0;

  constructor(purse: Purse) {
    this.#purse = purse;
  }

  /** Bytes one body may have. */
  get bytesMax(): number {
    return this.#purse.limits.bodyBytesMax;
  }

  /** Notes `bytes` in all. @throws RefusedBody 413 over one body's limit, WinnowError UNAVAILABLE. */
  hold(bytes: number): void {
    const { bodyBytesMax } = this.#purse.limits;
    if (bytes > bodyBytesMax) {
      throw new RefusedBody(
        413,
        `The body is longer than ${bodyBytesMax} bytes; send less at once`,
      );
    }
    if (bytes <= this.#taken) return;
    this.#purse.take(bytes - this.#taken);
    this.#taken = bytes;
  }

  /** Gives everything back. */
  close(): void {
    this.#purse.give(this.#taken);
    this.#taken = 0;
  }
}

/**
 * Reads a body whole, which the caller may overwrite.
 * @throws RefusedBody 413; WinnowError UNAVAILABLE, CANCELLED when the client went away.
 */
export async function readBody(request: IncomingMessage, account: BodyAccount): Promise<Buffer> {
  const announced = Number(request.headers["content-length"] ?? 0);
  account.hold(announced);
  const packed = await collect(request, account);
  const isPacked = request.headers["content-encoding"]?.includes("gzip") === true;
  return isPacked ? unpacked(packed, account) : packed;
}

function collect(request: IncomingMessage, account: BodyAccount): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = (): void => {
      request.off("data", take).off("end", finish).off("error", lose).off("close", lose);
    };
    const take = (chunk: Buffer): void => {
      bytes += chunk.length;
      chunks.push(chunk);
      try {
        account.hold(bytes);
      } catch (error) {
        chunks.length = 0;
        settle();
        request.resume();
        reject(error);
      }
    };
    const finish = (): void => {
      settle();
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    };
    const lose = (): void => {
      settle();
      reject(new WinnowError("CANCELLED", "The client closed the connection"));
    };
    request.on("data", take).once("end", finish).once("error", lose).once("close", lose);
  });
}

async function unpacked(packed: Buffer, account: BodyAccount): Promise<Buffer> {
  const limit = account.bytesMax;
  try {
    const body = await unpack(packed, { maxOutputLength: limit });
    account.hold(body.length);
    return body;
  } catch (error) {
    if (error instanceof WinnowError || error instanceof RefusedBody) throw error;
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") account.hold(limit + 1);
    return Buffer.alloc(0);
  }
}
