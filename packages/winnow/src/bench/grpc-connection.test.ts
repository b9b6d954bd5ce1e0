// The generator's gRPC connection against an HTTP/2 server that answers well, refuses, breaks off or speaks no gRPC.

import { type Http2Server, type ServerHttp2Stream, createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { GrpcConnection, framed } from "./grpc-connection.ts";
import type { LoadAnswer } from "./load-connection.ts";

const servers: Http2Server[] = [];
const connections: GrpcConnection[] = [];
afterEach(() => {
  for (const connection of connections.splice(0)) connection.end("over");
  for (const server of servers.splice(0)) server.close();
});

/** A connection to a server that answers each call by the next of these. */
async function connected(
  ...answers: readonly ((stream: ServerHttp2Stream, request: Buffer) => void)[]
): Promise<GrpcConnection> {
  const server = createServer();
  const queue = [...answers];
  server.on("stream", (stream) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => undefined);
    stream.on("data", (chunk: Buffer) => void chunks.push(chunk));
    stream.on("end", () => queue.shift()!(stream, Buffer.concat(chunks)));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return connectionTo(origin);
}

function connectionTo(origin: string): GrpcConnection {
  const metadata = { authorization: "Bearer k" };
  const connection = new GrpcConnection({ origin, ca: undefined, path: "/s.S/M", metadata });
  connections.push(connection);
  return connection;
}

function ask(connection: GrpcConnection, message = "hello"): Promise<LoadAnswer> {
  return new Promise((resolve) => connection.send(framed(Buffer.from(message)), resolve));
}

/** Answers with the message it was sent, and a status in the trailers. */
const echo = (stream: ServerHttp2Stream, request: Buffer): void => {
  stream.respond({ ":status": 200, "x-thing": "a" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.write(request.subarray(0, 3));
  stream.end(request.subarray(3));
};

test("reads message, status and metadata, one call after the other", async () => {
  const refuse = (stream: ServerHttp2Stream): void => {
    const headers = { ":status": 200, "grpc-status": "3", "grpc-message": "not %2242%22" };
    stream.respond(headers, { endStream: true });
  };
  const connection = await connected(echo, refuse, echo);

  const [first, refused, second] = [
    await ask(connection),
    await ask(connection),
    await ask(connection, "x".repeat(100_000)),
  ];

  expect([first.status, first.isOk, first.fault()]).toEqual(["OK", true, ""]);
  expect([first.body().toString(), first.header("x-thing")]).toEqual(["hello", "a"]);
  expect([refused.status, refused.isOk]).toEqual(["INVALID_ARGUMENT", false]);
  expect(refused.fault()).toBe('INVALID_ARGUMENT not "42"');
  expect(second.body()).toHaveLength(100_000);
});

test("says why there is no answer, and connects again for the next", async () => {
  const connection = await connected(
    (stream) => stream.session?.destroy(),
    (stream) => stream.close(2),
    (stream) => stream.respond({ ":status": 404 }, { endStream: true }),
    echo,
  );

  const answers = [
    await ask(connection),
    await ask(connection),
    await ask(connection),
    await ask(connection),
  ];
  const refused = await ask(connectionTo("http://127.0.0.1:1"));

  expect(answers.map(({ status }) => status)).toEqual([0, 0, 0, "OK"]);
  expect(answers[2]!.fault()).toContain("status 404 of HTTP");
  expect(refused.fault()).toContain("ECONNREFUSED");
});

test("an end that is asked for fails the call under way", async () => {
  const connection = await connected(() => undefined);
  const asked = ask(connection);
  setTimeout(() => connection.end("no answer within 5 ms"), 100);

  expect((await asked).fault()).toBe("no answer within 5 ms");
});
