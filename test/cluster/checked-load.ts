// Load with an oracle: fixed arrival times, every answer compared byte for byte with the one recorded
// from the same cluster before anything went wrong, or judged by what its version must say. Latency
// counts from the intended start, so a stall is seen by every request that should have been sent
// during it.

import { Agent, request } from "node:http";

/** One request and the only body it may be answered with, or whether a reply is right. */
export interface KnownAnswer {
  readonly model: string;
  readonly body: string;
  readonly expected: string | ((reply: VersionedReply) => boolean);
}

/** A body and the version that its header names. */
export interface VersionedReply {
  readonly version: string;
  readonly text: string;
}

/** Which version answered, and when. */
interface AnsweredVersion {
  readonly version: string;
  readonly sentMs: number;
  readonly answeredMs: number;
}

/** What became of the requests. */
export interface LoadOutcome {
  readonly exact: number;
  /** Status and start of the body of every answer that was not 200. */
  readonly failed: readonly string[];
  /** Answers with 200 and another body. */
  readonly wrong: readonly string[];
  readonly latenciesMs: readonly number[];
  /** One per answer with 200. */
  readonly versions: readonly AnsweredVersion[];
}

interface LoadSetting {
  readonly perSecond: number;
  readonly atLeast?: number;
  readonly until: Promise<unknown>;
}

/**
 * Sends `perSecond` requests a second until `until` resolves, `atLeast` so many (none unless told), and waits
 * for every answer.
 */
export async function runLoad(
  urls: readonly string[],
  answers: readonly KnownAnswer[],
  { perSecond, atLeast = 0, until }: LoadSetting,
): Promise<LoadOutcome> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const outcome = {
    exact: 0,
    failed: [] as string[],
    wrong: [] as string[],
    latenciesMs: [] as number[],
    versions: [] as AnsweredVersion[],
  };
  const pending = new Set<Promise<void>>();
  const startedMs = performance.now();
  let sent = 0;
  const over = new AbortController();
  void until.finally(() => over.abort()).catch(() => undefined);
  while (!over.signal.aborted || sent < atLeast) {
    const dueMs = startedMs + (1000 * sent) / perSecond;
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) {
      await new Promise((resolve) => {
        setTimeout(resolve, Math.ceil(waitMs));
      });
      continue;
    }
    const answer = answers[sent % answers.length]!;
    const url = urls[sent % urls.length]!;
    sent += 1;
    const sentMs = performance.now();
    const note = (reply: Reply): void => {
      const answeredMs = performance.now();
      outcome.latenciesMs.push(answeredMs - dueMs);
      const text = reply.text.slice(0, 200);
      if (reply.status !== 200) return void outcome.failed.push(`${reply.status} ${text}`);
      outcome.versions.push({ version: reply.version, sentMs, answeredMs });
      if (isExpected(answer, reply)) outcome.exact += 1;
      else outcome.wrong.push(`version ${reply.version}: ${text}`);
    };
    const one = ask(url, answer, agent).then((reply) => note(reply));
    pending.add(one);
    void one.finally(() => pending.delete(one));
  }
  await Promise.all(pending);
  agent.destroy();
  return outcome;
}

/** Sends so many requests at once, as fast as sockets open, and waits for every answer. */
export async function runBurst(
  urls: readonly string[],
  answers: readonly KnownAnswer[],
  count: number,
): Promise<Pick<LoadOutcome, "exact" | "failed" | "wrong">> {
  const agent = new Agent({ keepAlive: true, maxSockets: count });
  const outcome = { exact: 0, failed: [] as string[], wrong: [] as string[] };
  const asked = Array.from({ length: count }, async (_, index) => {
    const answer = answers[index % answers.length]!;
    const reply = await ask(urls[index % urls.length]!, answer, agent);
    if (reply.status !== 200) {
      outcome.failed.push(`${reply.status} ${reply.text.slice(0, 200)}`);
    } else if (isExpected(answer, reply)) outcome.exact += 1;
    else outcome.wrong.push(reply.text.slice(0, 200));
  });
  await Promise.all(asked);
  agent.destroy();
  return outcome;
}

/** Asks each request once and keeps the bodies as what must come ever after. */
export async function recordAnswers(
  url: string,
  requests: readonly Omit<KnownAnswer, "expected">[],
): Promise<KnownAnswer[]> {
  const agent = new Agent({ keepAlive: true });
  const answers: KnownAnswer[] = [];
  for (const one of requests) {
    const reply = await ask(url, one, agent);
    if (reply.status !== 200) throw new Error(`${one.model} ${one.body}: ${reply.text}`);
    answers.push({ ...one, expected: reply.text });
  }
  agent.destroy();
  return answers;
}

interface Reply extends VersionedReply {
  /** HTTP status, or 0 when the connection failed. */
  readonly status: number;
}

function isExpected({ expected }: KnownAnswer, reply: Reply): boolean {
  return typeof expected === "string" ? reply.text === expected : expected(reply);
}

function ask(url: string, one: Omit<KnownAnswer, "expected">, agent: Agent): Promise<Reply> {
  const target = `${url}/v1/models/${encodeURIComponent(one.model)}:predict`;
  return new Promise((resolve) => {
    const outgoing = request(target, { method: "POST", agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const version = String(response.headers["x-winnow-model-version"] ?? "");
        resolve({ status: response.statusCode ?? 0, version, text });
      });
      response.on("error", (error) => resolve(brokenReply(error)));
    });
    outgoing.on("error", (error) => resolve(brokenReply(error)));
    outgoing.end(one.body);
  });
}

function brokenReply(error: Error): Reply {
  return { status: 0, version: "", text: String(error) };
}
