// Requests of this command to a router, over HTTP or HTTPS. Node's `fetch` takes neither authorities nor
// certificates, so this speaks through `node:https`. What is sent to whom stays here: a key is never part
// of a URL, a log line or an error.

import { readFileSync } from "node:fs";
import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { type Clock, WinnowError } from "@winnow/core";
import { processVariables } from "../process/process-settings.ts";

/** Whom a router is believed by. */
export interface RestTrust {
  /** A file of authorities in PEM. Default: those of Node. */
  readonly ca?: string | undefined;
  /** A file with the key to present. Default: that of `WINNOW_API_KEY`, or none. */
  readonly keyFile?: string | undefined;
  /** `winnow up` asks the router that it started itself, on this machine. Default false. */
  readonly isOwnProcess?: boolean;
}

/** A request; without a body it reads. */
export interface RestRequest {
  readonly body?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Beside those of the trust. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** What came back. */
export interface RestAnswer {
  readonly status: number;
  readonly text: string;
  header(name: string): string | undefined;
}

const ANSWER_BYTES_MAX = 512 * 1024 * 1024;

/** What a trust comes to: headers to send, authorities to believe. */
export interface ReadTrust {
  readonly headers: Readonly<Record<string, string>>;
  /** PEM. */
  readonly ca: string | undefined;
}

/** @throws WinnowError NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for one without a key */
export function readTrust({ ca, keyFile }: Omit<RestTrust, "isOwnProcess">): ReadTrust {
  const isFile = keyFile !== undefined && keyFile !== "";
  const key = isFile ? textOf(keyFile).trim() : (processVariables["WINNOW_API_KEY"] ?? "");
  // Anything else could not be a header.
  if (!/^[\x21-\x7e]{0,1024}$/.test(key)) {
    const text = `${isFile ? keyFile : "WINNOW_API_KEY"} holds no key: one word, as winnow keys create prints it`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  return {
    headers: key === "" ? {} : { authorization: `Bearer ${key}` },
    ca: ca === undefined || ca === "" ? undefined : textOf(ca),
  };
}

/** Asks one router after another; made once for each command. */
export class RestClient {
  readonly #ca: string | undefined;
  readonly #isOwnProcess: boolean;
  readonly #headers: Readonly<Record<string, string>>;

  /** @throws WinnowError as `readTrust` */
  constructor({ isOwnProcess = false, ...trust }: RestTrust = {}) {
    const { headers, ca } = readTrust(trust);
    this.#headers = headers;
    this.#ca = ca;
    this.#isOwnProcess = isOwnProcess;
  }

  /** Asks, and gives up after a time, however much of an answer has come. @throws Error of the connection */
  async askWithin(
    url: string,
    { signal, ...request }: RestRequest,
    { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
  ): Promise<RestAnswer> {
    const late = new AbortController();
    const timer = clock.setTimer(timeoutMs, () => late.abort());
    try {
      const signals = signal === undefined ? [late.signal] : [late.signal, signal];
      return await this.ask(url, { ...request, signal: AbortSignal.any(signals) });
    } catch (error) {
      throw late.signal.aborted ? new Error(`no answer within ${timeoutMs} ms`) : error;
    } finally {
      clock.clearTimer(timer);
    }
  }

  /** Asks. @throws Error of the connection */
  ask(url: string, { body, signal, headers }: RestRequest = {}): Promise<RestAnswer> {
    const isSecure = url.startsWith("https:");
    const begin = isSecure ? secureRequest : plainRequest;
    const secure = { ca: this.#ca, rejectUnauthorized: !this.#isOwnProcess };
    const method = body === undefined ? "GET" : "POST";
    const options = { method, signal, headers: { ...headers, ...this.#headers } };
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
