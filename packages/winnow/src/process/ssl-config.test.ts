// TensorFlow Serving's file of certificates, read as its users write it.

import { expect, test } from "vitest";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import { openSslConfig } from "./ssl-config.ts";

const authority = testAuthority();
const made = authority.issue({ names: ["localhost"] });
const FILE = "/etc/ssl.cfg";

/** PEM in one line, as a text of protobuf has it. */
const quoted = (pem: string): string => `"${pem.replaceAll("\n", "\\n")}"`;
const opened = (...lines: readonly string[]) => openSslConfig(FILE, async () => lines.join("\n"));
const PAIR = [`server_cert: ${quoted(made.cert)}`, `server_key: ${quoted(made.key)}`];

test("certificate and key come from their fields, also from strings that stand in lines", async () => {
  const lines = made.key
    .trimEnd()
    .split("\n")
    .map((line) => `  "${line}\\n"`);

  const { names, readText } = await opened(PAIR[0]!, "server_key:", ...lines);

  expect(await readText(names.certFile!)).toBe(made.cert);
  expect((await readText(names.keyFile!)).trim()).toBe(made.key.trim());
  expect(names).toEqual({
    certFile: "/etc/ssl.cfg (server_cert)",
    keyFile: "/etc/ssl.cfg (server_key)",
    caFile: undefined,
  });
});

test("clients are asked for certificates where client_verify says so, not by authorities alone", async () => {
  const ca = `custom_ca: ${quoted(authority.cert)}`;
  const asked = await opened(...PAIR, ca, "client_verify: true");
  const unasked = await opened(...PAIR, ca);

  expect(await asked.readText(asked.names.caFile!)).toBe(authority.cert);
  expect(unasked.names.caFile).toBeUndefined();
});

test("what is read later is the file as it is then", async () => {
  const texts = ["old", "new"].map((cert) => `server_cert: "${cert}" server_key: "k"`);
  const { names, readText } = await openSslConfig(FILE, async () => texts.shift()!);

  expect(await readText(names.certFile!)).toBe("new");
});

test.each([
  ["", "/etc/ssl.cfg needs server_cert: PEM, with \\n for line ends"],
  [PAIR[0]!, "/etc/ssl.cfg needs server_key"],
  [
    `${PAIR.join(" ")} client_verify: true`,
    "/etc/ssl.cfg has client_verify, which needs custom_ca",
  ],
  ['server_crt: "x"', "server_cert"],
  ["client_verify: 3", "client_verify"],
])("%j is refused with what is missing", async (text, message) => {
  await expect(opened(text)).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining(message) as string,
  });
});
