// A REST port is reached by what its URL says, whatever kind of host that is.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { systemClock } from "@winnow/core";
import { expect, test } from "vitest";
import type { LoadAnswer } from "./load-connection.ts";
import { openRestLoadServer } from "./rest-load-server.ts";

const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
const hasIpv6 = own.some(({ address }) => address === "::1");

test.each<[string, string]>([
  ["127.0.0.1", "127.0.0.1"],
  ["localhost", "localhost"],
  ...(hasIpv6 ? [["::1", "[::1]"] satisfies [string, string]] : []),
])("a server on %s is asked as %s", async (host, written) => {
  const hosts: (string | undefined)[] = [];
  const listening = createServer((request, response) => {
    hosts.push(request.headers.host);
    response.end("{}");
  });
  await new Promise<void>((resolve) => listening.listen(0, host, resolve));
  const { port } = listening.address() as AddressInfo;
  const url = `http://${written}:${port}`;
  const server = await openRestLoadServer({ url, trust: {}, clock: systemClock, timeoutMs: 5000 });
  const pool = { model: "movies", bodies: ["{}"], batch: 1, questions: undefined };
  const connection = server.connect();
  const answer = await new Promise<LoadAnswer>((resolve) => {
    connection.send(server.prepared(pool)[0]!.bytes, resolve);
  });
  connection.end("done");
  await new Promise((resolve) => listening.close(resolve));

  expect([answer.status, answer.fault()]).toEqual([200, ""]);
  expect(hosts).toEqual([`${written}:${port}`, `${written}:${port}`]);
});
