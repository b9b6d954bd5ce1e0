// A load generator that costs little: each connection sends the same bytes again as soon as the answer
// to the last ones is whole. It shares the machine with what it measures, so it parses of an answer
// only the status and the length.

import { connect } from "node:net";

const HEAD_END = Buffer.from("\r\n\r\n");

/** The bytes of one POST, kept alive. */
export function postBytes({ host, port, path, body }) {
  const head = [
    `POST ${path} HTTP/1.1`,
    `host: ${host}:${port}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}

/**
 * Sends `requests` in turn on so many connections for so long, or until so many answers have come; times
 * in ms, one per answer.
 */
export async function load({ host, port, requests, connections, seconds, answers = Infinity }) {
  const endMs = performance.now() + seconds * 1000;
  const outcome = { times: [], failures: 0 };
  const startMs = performance.now();
  await Promise.all(
    Array.from({ length: connections }, (_, number) =>
      drive({ host, port, requests, endMs, answers, outcome, first: number * 7 }),
    ),
  );
  const elapsed = (performance.now() - startMs) / 1000;
  return { ...outcome, perSecond: outcome.times.length / elapsed };
}

/** One connection until the time is over. */
function drive({ host, port, requests, endMs, answers, outcome, first }) {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true });
    let received = Buffer.alloc(0);
    let number = first;
    let sentMs = 0;
    const send = () => {
      const isOver = performance.now() >= endMs || outcome.times.length >= answers;
      if (isOver) return socket.end(() => resolve(undefined));
      number = (number + 1) % requests.length;
      sentMs = performance.now();
      socket.write(requests[number]);
    };
    socket.on("connect", send);
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const answer = answerAt(received);
      if (answer === undefined) return;
      received = received.subarray(answer.end);
      if (answer.status === 200) outcome.times.push(performance.now() - sentMs);
      else outcome.failures += 1;
      send();
    });
  });
}

/**
 * A connection on which a request follows the answer before it, opened again where the server has closed it: `ask`
 * sends the bytes of a request, and gives the body of its answer and the ms until the body was whole.
 */
export function openConnection({ host, port }) {
  let socket;
  let waiting;
  let received = Buffer.alloc(0);
  const end = (error) => {
    const asked = waiting;
    [socket, waiting, received] = [undefined, undefined, Buffer.alloc(0)];
    asked?.reject(error);
  };
  const take = (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const answer = answerAt(received);
    // What comes unasked says that the connection has rested for too long.
    if (answer === undefined || waiting === undefined) return;
    const { sentMs, resolve, reject } = waiting;
    const elapsed = performance.now() - sentMs;
    const text = received.toString("utf8", answer.bodyAt, answer.end);
    [waiting, received] = [undefined, received.subarray(answer.end)];
    if (answer.status === 200) resolve({ elapsed, text });
    else reject(new Error(text));
  };
  const opened = () =>
    new Promise((resolve, reject) => {
      const made = connect({ host, port, noDelay: true });
      made.once("connect", () => resolve((socket = made))).once("error", reject);
      made.on("data", take);
      made.on("close", () => end(new Error("the connection was closed")));
    });
  return {
    async ask(bytes) {
      if (socket === undefined) await opened();
      return new Promise((resolve, reject) => {
        waiting = { resolve, reject, sentMs: performance.now() };
        socket.write(bytes);
      });
    },
    close: () => socket?.destroy(),
  };
}

/** Where the answer at the start of these bytes ends; `undefined` while it is not whole. */
function answerAt(bytes) {
  const headEnd = bytes.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const head = bytes.latin1Slice(0, headEnd);
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
  const bodyAt = headEnd + HEAD_END.length;
  const end = bodyAt + length;
  return bytes.length < end ? undefined : { status: Number(head.slice(9, 12)), bodyAt, end };
}

/** A share of sorted times, in ms. */
export function percentile(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
