// A REST port that load is sent to: TensorFlow Serving's predict API.

import { type RestTrust, readTrust } from "../access/rest-client.ts";
import type { OutputSpec } from "../oracle/answer-records.ts";
import { RestServer, recordsOfText } from "../verify/rest-server.ts";
import { type ConnectionTarget, HttpConnection } from "./http-connection.ts";
import type { LoadAnswer, LoadConnection } from "./load-connection.ts";
import type { PreparedRequest } from "./load-run.ts";
import type { LoadServer, LoadServerOptions, ReadAnswer } from "./load-server.ts";
import { type RequestPool, preparedRequests } from "./request-pool.ts";

/** @throws WinnowError for an address that is none, UNAVAILABLE where nobody answers */
export async function openRestLoadServer(options: LoadServerOptions): Promise<LoadServer> {
  const server = new RestServer(options);
  await server.isWinnow();
  return new RestLoadServer(server.url, options.trust);
}

class RestLoadServer implements LoadServer {
  readonly url: string;
  readonly #address: URL;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #target: ConnectionTarget;

  constructor(url: string, trust: RestTrust) {
    const { headers, ca } = readTrust(trust);
    const address = new URL(url);
    const isSecure = address.protocol === "https:";
    const port = Number(address.port === "" ? (isSecure ? 443 : 80) : address.port);
    // A URL writes an address of IPv6 in brackets, a socket takes it without.
    const host = address.hostname.replace(/^\[(.*)\]$/, "$1");
    this.url = url;
    this.#address = address;
    this.#headers = headers;
    this.#target = { host, port, isSecure, ca };
  }

  connect(): LoadConnection {
    return new HttpConnection(this.#target);
  }

  prepared(pool: RequestPool): readonly PreparedRequest[] {
    return preparedRequests(pool, { url: this.#address, headers: this.#headers });
  }

  read(answer: LoadAnswer, outputs: readonly OutputSpec[]): ReadAnswer {
    return {
      records: recordsOfText(answer.body().toString("utf8"), outputs, "row"),
      version: answer.header("x-winnow-model-version"),
    };
  }
}
