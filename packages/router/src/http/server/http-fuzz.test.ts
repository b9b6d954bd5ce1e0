// Fuzzing over a socket: a short seeded run with every test run, a long one with
// `npm run fuzz:http` (FUZZ_REQUESTS requests from FUZZ_SEED).

import http from "node:http";
import { silentLogger, systemClock } from "@winnow/core";
import { expect, test } from "vitest";
import { FixturePredictor, SMALL_WEIGHTS } from "../doubles/fixture-predictor.ts";
import type { Received, SentRequest } from "../fixtures/http-client.ts";
import { RequestFuzzer } from "./fixtures/http-fuzz.ts";
import { createHttpServer } from "./http-server.ts";

const REQUESTS = Number(process.env["FUZZ_REQUESTS"] ?? 5000);
const SEED = Number(process.env["FUZZ_SEED"] ?? 1);
const CLIENTS = 8;
const TIMEOUT_MS = 60_000 + REQUESTS * 5;
const STATUSES = new Set([200, 400, 404, 405, 413, 429, 501]);

function ask(place: { port: number; agent: http.Agent }, request: SentRequest): Promise<Received> {
  const { method, path, body } = request;
  const headers: Record<string, string | number> = { ...request.headers };
  if (body !== undefined) headers["Content-Length"] = body.length;
  return new Promise((resolve, reject) => {
    const options = { ...place, method, path, headers, timeout: 10_000 };
    const sent = http.request(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const bytes = Buffer.concat(chunks);
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, bytes, text: bytes.toString("utf8") });
      });
      response.on("error", reject);
    });
    sent.on("timeout", () => sent.destroy(new Error("hangs")));
    sent.on("error", reject);
    sent.end(body);
  });
}

/** What is wrong with an answer, or nothing. */
function faultOf(request: SentRequest, received: Received): string | undefined {
  const { status, headers, text } = received;
  if (!STATUSES.has(status)) return `status ${status}`;
  const isJson = headers["content-type"] === "application/json";
  if (status === 200 || !isJson || request.method === "HEAD") return undefined;
  if (text === "" && request.path.includes("99999")) return undefined;
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" && error !== "" ? undefined : `no error: ${text}`;
  } catch {
    return `not JSON: ${text}`;
  }
}

test(
  `${REQUESTS} fuzzed requests from seed ${SEED} get decent answers`,
  async () => {
    const predictor = new FixturePredictor(SMALL_WEIGHTS);
    const errors: unknown[] = [];
    const log = {
      ...silentLogger,
      error: (event: string, fields: unknown) => errors.push(event, fields),
    };
    const server = createHttpServer(predictor, {}, { clock: systemClock, random: () => 0.5, log });
    const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
    const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS });
    const fuzzer = new RequestFuzzer(SEED);
    const faults: unknown[] = [];
    const statuses = new Map<number, number>();
    let asked = 0;
    const client = async (): Promise<void> => {
      while (asked < REQUESTS) {
        const number = asked++;
        const request = fuzzer.next();
        const received = await ask({ port, agent }, request);
        statuses.set(received.status, (statuses.get(received.status) ?? 0) + 1);
        const fault = faultOf(request, received);
        if (fault !== undefined) faults.push({ number, fault, request });
      }
    };

    await Promise.all(Array.from({ length: CLIENTS }, client));
    await server.drain();
    agent.destroy();

    expect(faults).toEqual([]);
    expect(errors).toEqual([]);
    expect(predictor.pins).toBe(0);
    expect(statuses.get(200)).toBeGreaterThan(REQUESTS / 100);
    expect(({} as Record<string, unknown>)["input_1"]).toBeUndefined();
  },
  TIMEOUT_MS,
);
