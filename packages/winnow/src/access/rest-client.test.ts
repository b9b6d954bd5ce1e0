// The files that a command's key and authorities are in: one that holds nothing of use is named before a request is
// sent, because the router's refusal would not say which file it was.

import { existsSync, writeFileSync } from "node:fs";
import { type IncomingHttpHeaders, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import path from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { RestClient, readTrust } from "./rest-client.ts";

function fileOf(text: string): string {
  const file = path.join(temporaryDirectory(), "file");
  writeFileSync(file, text);
  return file;
}

describe("the file of a key", () => {
  test("may end its line as on Windows, and begin with a byte order mark", () => {
    const { headers } = readTrust({ keyFile: fileOf("\uFEFFsecret \r\n") });

    expect(headers).toEqual({ authorization: "Bearer secret" });
  });

  test.each(["", "\n", "two words"])("that holds %j holds no key", (text) => {
    const keyFile = fileOf(text);

    expect(() => readTrust({ keyFile })).toThrow(`${keyFile} holds no key`);
  });
});

describe("the file of authorities", () => {
  test.each(["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])(
    "that holds %j holds no certificate",
    (text) => {
      const ca = fileOf(text);

      expect(() => readTrust({ ca })).toThrow(`${ca} (--ca) holds no certificate in PEM`);
    },
  );
});

describe.skipIf(!existsSync("/dev/zero"))("a file that never ends", () => {
  test.each([
    ["keyFile", "--key-file"],
    ["ca", "--ca"],
  ])("is not read to its end as %s", (name, flag) => {
    const told = `/dev/zero (${flag}): it has more than`;

    expect(() => readTrust({ [name]: "/dev/zero" })).toThrow(told);
  });
});

test.each([
  [true, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/],
  [false, /^undefined$/],
])(
  "a client of routers of its own (%s) leaves their traces to their clients",
  async (isOwnProcess, traceparent) => {
    const asked: IncomingHttpHeaders[] = [];
    const server = createServer(({ headers }, response) => {
      asked.push(headers);
      response.end();
    });
    onTestFinished(() => void server.close());
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;

    await new RestClient({ isOwnProcess }).ask(`http://127.0.0.1:${port}/v1/models/m`);

    expect(String(asked[0]?.["traceparent"])).toMatch(traceparent);
  },
);
