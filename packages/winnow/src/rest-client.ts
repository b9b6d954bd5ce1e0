// Requests of this command to a router, over HTTP or HTTPS. Node's `fetch` takes neither authorities nor
// certificates, so this speaks through `node:https`. What is sent to whom stays here: a key is never part
// of a URL, a log line or an error.

import { readFileSync } from "node:fs";
import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { WinnowError } from "@winnow/core";

/** Whom a router is believed by. */
export interface RestTrust {
  /** A file of authorities in PEM. Default: those of Node. */
  readonly ca?: string | undefined;
  /** `winnow up` asks the router that it started itself, on this machine. Default false. */
  readonly isOwnProcess?: boolean;
}

/** A request; without a body it reads. */
export interface RestRequest {
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** What came back. */
export interface RestAnswer {
  readonly status: number;
  readonly text: string;
  header(name: string): string | undefined;
}

const ANSWER_BYTES_MAX = 512 * 1024 * 1024;

/** Asks one router after another; made once for each command. */
export class RestClient {
  readonly #ca: string | undefined;
  readonly #isOwnProcess: boolean;

  /** @throws WinnowError NOT_FOUND for a file that cannot be read */
  constructor({ ca, isOwnProcess = false }: RestTrust = {}) {
    this.#ca = ca === undefined || ca === "" ? undefined : textOf(ca);
    this.#isOwnProcess = isOwnProcess;
  }

  /** Asks. @throws Error of the connection */
  ask(url: string, { body, signal }: RestRequest = {}): Promise<RestAnswer> {
    const isSecure = url.startsWith("https:");
    const begin = isSecure ? secureRequest : plainRequest;
    const secure = { ca: this.#ca, rejectUnauthorized: !this.#isOwnProcess };
    const options = { method: body === undefined ? "GET" : "POST", signal };
    return new Promise((resolve, reject) => {
      const sent = begin(url, { ...options, ...(isSecure && secure) }, (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on("data", (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > ANSWER_BYTES_MAX) response.destroy(new Error("The answer is too long"));
        });
        response.on("error", reject);
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            text: Buffer.concat(chunks).toString("utf8"),
            header: (name) => [response.headers[name]].flat()[0],
          }),
        );
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new WinnowError("NOT_FOUND", `Cannot read ${file}: ${reason}`, { cause });
  }
}
