// A server that passes on the answers of the server behind it, but changes those that a test wants changed,
// like a faulty cluster.

import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pause } from "./running-cluster.ts";

/** One candidate list of an answer of the row format. */
export interface ProxiedList {
  output_1: number[];
  output_2: string[];
  attributes?: Record<string, unknown>[];
}

/** An answer on its way to the client. */
interface ProxiedAnswer {
  status: number;
  version: string;
  /** Headers that tell arms and the versions of a pipeline's models. */
  readonly headers: Record<string, string>;
  predictions: ProxiedList[];
}

/** Changes an answer in place. */
export type Spoil = (answer: ProxiedAnswer) => void;

/** Answers for another server. */
export class SpoilingProxy {
  /** Predictions that were asked for. */
  predictions = 0;
  /** Which answers are changed, and how; by default none. */
  spoil: Spoil = () => undefined;
  /** Called when a prediction is asked for. */
  asked: (body: string) => void = () => undefined;
  /** How much later answers are given. */
  delayMs = 0;
  readonly #server: Server;

  private constructor(behind: string) {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const isPrediction = request.method === "POST";
        if (isPrediction) this.predictions += 1;
        if (isPrediction) this.asked(Buffer.concat(chunks).toString());
        const user = request.headers["x-user"]?.toString();
        const sent = {
          ...(isPrediction && { method: "POST", body: Buffer.concat(chunks) }),
          headers: user === undefined ? {} : { "x-user": user },
        };
        void fetch(`${behind}${request.url}`, sent).then(async (answer) => {
          const text = await answer.text();
          await pause(this.delayMs);
          const version = answer.headers.get("x-winnow-model-version") ?? "";
          if (!text.startsWith('{\n    "predictions"')) {
            response.writeHead(answer.status, { "x-winnow-model-version": version }).end(text);
            return undefined;
          }
          const { predictions } = JSON.parse(text) as { predictions: ProxiedList[] };
          const told = ["x-winnow-arm", "x-winnow-pipeline-versions"].flatMap((name) => {
            const value = answer.headers.get(name);
            return value === null ? [] : [[name, value] as const];
          });
          const headers = Object.fromEntries(told);
          const given: ProxiedAnswer = { status: answer.status, version, headers, predictions };
          this.spoil(given);
          const own = { "x-winnow-model-version": given.version };
          response.writeHead(given.status, { ...given.headers, ...own });
          response.end(JSON.stringify({ predictions: given.predictions }));
          return undefined;
        });
      });
    });
  }

  /** Listens on a free port. */
  static async start(behind: string): Promise<SpoilingProxy> {
    const proxy = new SpoilingProxy(behind);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  /** Its address. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Stops listening. */
  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
