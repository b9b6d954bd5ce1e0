// Requests of this command to a router, over HTTP or HTTPS. Node's `fetch` takes neither authorities nor
// certificates, so this uses `node:https`. A key is only ever in a header: it is part of no URL, log line or
// error.

import { request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import { type Clock, WinnowError, readFailureText } from "@winnow/core";
import { processVariables } from "../process/process-settings.ts";
import { readShortFile } from "../process/named-file.ts";

/** How a router is verified, and how this client authenticates itself. */
export interface RestTrust {
  /** A file of authorities in PEM. Default: the authorities that Node trusts. */
  readonly ca?: string | undefined;
  /** A file with the key to present. Default: the key in `WINNOW_API_KEY`, if there is one. */
  readonly keyFile?: string | undefined;
  /** Whether the router was started by this command, on this machine, as by `winnow up`. Default false. */
  readonly isOwnProcess?: boolean;
}

/** A request. Without a body it is a GET. */
export interface RestRequest {
  readonly body?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Further headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** What came back. */
export interface RestAnswer {
  readonly status: number;
  readonly text: string;
  header(name: string): string | undefined;
}

const ANSWER_BYTES_MAX = 512 * 1024 * 1024;
const KEY_FILE_BYTES_MAX = 64 * 1024;
/** The authorities that a system trusts take a quarter of it. */
const CA_FILE_BYTES_MAX = 1024 * 1024;

/** The content of the files of a `RestTrust`. */
export interface ReadTrust {
  readonly headers: Readonly<Record<string, string>>;
  /** Authorities in PEM. */
  readonly ca: string | undefined;
}

/**
 * Reads the files. @throws WinnowError NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for one
 * without a key or without a certificate
 */
export function readTrust({ ca, keyFile }: Omit<RestTrust, "isOwnProcess">): ReadTrust {
  const isFile = keyFile !== undefined;
  const key = isFile
    ? textOf(keyFile, KEY_FILE_BYTES_MAX, "--key-file").trim()
    : (processVariables["WINNOW_API_KEY"] ?? "");
  // Other characters cannot be in a header. With an empty file, the request would be sent without a key.
  if (!/^[\x21-\x7e]{0,1024}$/.test(key) || (isFile && key === "")) {
    const text = `${isFile ? keyFile : "WINNOW_API_KEY"} holds no key: one word, as winnow keys create prints it`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  return {
    headers: key === "" ? {} : { authorization: `Bearer ${key}` },
    ca: ca === undefined ? undefined : authoritiesIn(ca),
  };
}

/** Node passes over a text without certificates, and then trusts nobody without saying why. */
function authoritiesIn(file: string): string {
  const text = textOf(file, CA_FILE_BYTES_MAX, "--ca");
  if (/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.test(text)) return text;
  const fault = `${file} (--ca) holds no certificate in PEM ("-----BEGIN CERTIFICATE-----")`;
  throw new WinnowError("INVALID_ARGUMENT", fault);
}

/**
 * What a command asks the routers that it started itself, several times a second until they are ready, would bury the
 * traces of their clients. The trace is one that nobody else has, and its flag says that it is not sampled.
 */
const NOT_SAMPLED = "00-77696e6e6f772061736b7320697473ff-77696e6e6f770001-00";

/** The id of all requests of a command to the routers that it started itself. `starter`: the number of its process. */
export const ownRequestId = (starter: number): string => `winnow-starter-${starter}`;

function ownHeaders(): Readonly<Record<string, string>> {
  return { traceparent: NOT_SAMPLED, "x-request-id": ownRequestId(process.pid) };
}

/** Sends requests; one client is made for each command. */
export class RestClient {
  readonly #ca: string | undefined;
  readonly #isOwnProcess: boolean;
  readonly #headers: Readonly<Record<string, string>>;

  /** Makes a client. @throws WinnowError as `readTrust` */
  constructor({ isOwnProcess = false, ...trust }: RestTrust = {}) {
    const { headers, ca } = readTrust(trust);
    this.#headers = isOwnProcess ? { ...headers, ...ownHeaders() } : headers;
    this.#ca = ca;
    this.#isOwnProcess = isOwnProcess;
  }

  /**
   * Sends a request, and gives up after a time, even if a part of the answer has arrived. @throws Error of
   * the connection
   */
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

  /** Sends a request. @throws Error of the connection */
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

function textOf(file: string, bytesMax: number, flag: string): string {
  try {
    return readShortFile(file, bytesMax);
  } catch (cause) {
    const text = `Cannot read ${file} (${flag}): ${readFailureText(cause)}`;
    throw new WinnowError("NOT_FOUND", text, { cause });
  }
}
