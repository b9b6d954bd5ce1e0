// `winnow batch` against a server that behaves as a router, well and badly, and files as a person may name them.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type RequestListener, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "@winnow/core";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { BatchReport } from "../batch/batch-summary.ts";
import { type BatchCommand, batch } from "./batch.ts";

let folder = "";
let server: Server;
let url = "";
let listener: RequestListener;
let bodies: string[] = [];
let urls: string[] = [];

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "winnow-batch-"));
  [bodies, urls] = [[], []];
  server = createServer((request, response) => listener(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const at = (name: string): string => path.join(folder, name);
const numbers = (count: number): string =>
  Array.from({ length: count }, (_, index) => `${index}\n`).join("");

/** Answers each request in this way; of the texts of its instances. */
function serve(
  answer: (response: ServerResponse, instances: string[], asked: number) => void,
): void {
  let asked = 0;
  listener = (request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      if (request.method === "GET") return response.end("{}");
      asked += 1;
      bodies.push(body);
      urls.push(request.url ?? "");
      return answer(response, /\[(.*?)\]/.exec(body)![1]!.split(","), asked);
    });
  };
}

function predicts(response: ServerResponse, instances: string[]): void {
  response.setHeader("x-winnow-model-version", "3");
  response.end(`{"predictions":[${instances.map((text) => `9007199254740993${text}`).join(",")}]}`);
}

function refuses(response: ServerResponse, status: number): void {
  response.statusCode = status;
  response.end('{"error":"no"}');
}

function run(
  own: Partial<BatchCommand> = {},
  signal = new AbortController().signal,
): Promise<BatchReport> {
  const command = {
    url,
    model: "movies",
    input: at("in.jsonl"),
    output: at("out.jsonl"),
    batchSize: 4,
    concurrency: 3,
    errorsMax: 10,
    lineBytesMax: 1000,
    retryForMs: 10_000,
    timeoutMs: 10_000,
    isResumed: false,
    isOverwriting: false,
    ...own,
  };
  const stdout = new PassThrough();
  const progress = { write: () => true };
  const stdin = new PassThrough();
  return batch(command, { clock: systemClock, random: () => 0, progress, signal, stdin, stdout });
}

const lineOf = (index: number): string =>
  `{"instance":${index},"prediction":9007199254740993${index}}\n`;
const linesOf = (count: number): string =>
  Array.from({ length: count }, (_, index) => lineOf(index)).join("");

test("a broken connection, half an answer and an overload are asked again, and the first version is pinned", async () => {
  writeFileSync(at("in.jsonl"), numbers(30));
  serve((response, instances, asked) => {
    if (asked === 2) return response.destroy();
    if (asked === 3) {
      response.setHeader("content-length", 1000);
      response.write('{"predictions":[');
      return void setTimeout(() => response.destroy(), 20);
    }
    return asked === 5 ? refuses(response, 503) : predicts(response, instances);
  });

  const report = await run({ k: 5 });

  expect(report).toMatchObject({
    failure: undefined,
    lines: 30,
    errors: 0,
    version: 3,
    retries: 3,
  });
  expect(readFileSync(at("out.jsonl"), "utf8")).toBe(linesOf(30));
  expect(existsSync(at("out.jsonl.part")) || existsSync(at("out.jsonl.part.json"))).toBe(false);
  expect(bodies[0]).toBe('{"instances":[0,1,2,3],"k":5}');
  expect(urls[0]).toBe("/v1/models/movies:predict");
  expect(new Set(urls.slice(1))).toEqual(new Set(["/v1/models/movies/versions/3:predict"]));
});

test("a version that is gone stops the job, what was done is kept, and another job does not go on with it", async () => {
  writeFileSync(at("in.jsonl"), numbers(20));
  serve((response, instances) =>
    instances.includes("9") ? refuses(response, 404) : predicts(response, instances),
  );

  const report = await run({ concurrency: 1 });

  expect(String(report.failure)).toContain("go on with --resume, or begin again with --overwrite");
  expect(report.part).toBe(at("out.jsonl.part"));
  expect(readFileSync(report.part!, "utf8")).toBe(linesOf(8));
  await expect(run()).rejects.toThrow("go on with --resume");
  await expect(run({ isResumed: true, k: 3 })).rejects.toThrow('nothing more before, "k":3 now');

  writeFileSync(at("out.jsonl.part"), '{"inst', { flag: "a" });
  serve((response, instances) => predicts(response, instances));
  const resumed = await run({ isResumed: true });
  expect(resumed).toMatchObject({ failure: undefined, lines: 12, linesBefore: 8 });
  expect(urls.every((each) => each.includes("/versions/3:"))).toBe(false);
  expect(urls.at(-1)).toBe("/v1/models/movies/versions/3:predict");
  expect(readFileSync(at("out.jsonl"), "utf8")).toBe(linesOf(20));
});

test("an interruption ends requests without an answer and keeps the lines before them", async () => {
  writeFileSync(at("in.jsonl"), numbers(20));
  const interrupted = new AbortController();
  serve((response, instances) => {
    if (!instances.includes("13")) return predicts(response, instances);
    return void setTimeout(() => interrupted.abort(), 50);
  });

  const report = await run({ concurrency: 2 }, interrupted.signal);

  expect(report).toMatchObject({ lines: 12, part: at("out.jsonl.part") });
  expect(report.failure).toBeDefined();
});

test("a server that never answers, or with too few predictions, stops the job and leaves no files of nothing", async () => {
  writeFileSync(at("in.jsonl"), numbers(3));
  serve(() => undefined);
  const silent = await run({ timeoutMs: 30, retryForMs: 0 });
  expect(String(silent.failure)).toContain("no answer within 30 ms");

  serve((response) => response.end('{"predictions":[1]}'));
  const short = await run();
  expect(String(short.failure)).toContain("answer to 3 instances has 1 predictions");
  expect([silent.part, short.part, existsSync(at("out.jsonl.part"))]).toEqual([
    undefined,
    undefined,
    false,
  ]);
});

test("lines that are wrong have their errors in place, and too many of them stop the job", async () => {
  writeFileSync(
    at("in.jsonl"),
    Buffer.concat([
      Buffer.from('0\n{"a\n\n'),
      Buffer.from([0xff, 0x0a]),
      Buffer.from(`${"1".repeat(2000)}\n7\n8`),
    ]),
  );
  serve((response, instances) =>
    instances.includes("7") ? refuses(response, 400) : predicts(response, instances),
  );

  const report = await run();
  const lines = readFileSync(at("out.jsonl"), "utf8").trim().split("\n");

  expect(report).toMatchObject({ failure: undefined, lines: 6, errors: 4 });
  expect(
    lines.map((line) =>
      line.startsWith('{"error":')
        ? /"message":"(.{6}).*"instance":(.*)\}$/.exec(line)?.slice(1)
        : "ok",
    ),
  ).toEqual(["ok", ["Line 2", "null"], ["Line 4", "null"], ["Line 5", "null"], undefined, "ok"]);
  const stopped = await run({ errorsMax: 3, isOverwriting: true });
  expect(String(stopped.failure)).toContain("more than --max-errors 3");
});

test("files that would be lost or cannot be are refused before anything is asked", async () => {
  writeFileSync(at("in.jsonl"), numbers(3));
  writeFileSync(at("full.jsonl"), "kept");
  await expect(run({ output: at("in.jsonl"), isOverwriting: true })).rejects.toThrow(
    "is the input",
  );
  await expect(run({ output: at("full.jsonl") })).rejects.toThrow("--overwrite");
  await expect(run({ output: at("none/out.jsonl") })).rejects.toThrow("Cannot write");
  await expect(run({ output: folder })).rejects.toThrow("is no file");
  await expect(run({ input: at("none.jsonl") })).rejects.toThrow("Cannot read");
  await expect(run({ input: folder })).rejects.toThrow("Cannot read");
  await expect(run({ exclude: '[["7"]]' })).rejects.toThrow("one entry per instance");
  expect(readFileSync(at("full.jsonl"), "utf8")).toBe("kept");
  expect(bodies).toEqual([]);
});
