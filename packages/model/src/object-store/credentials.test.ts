// What is told where credentials, a region or an endpoint are at fault, before any bucket is asked.

import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { parseObjectUrl } from "@winnow/core";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { refusal as refusalOfAzure } from "./azure-store.ts";
import { refusal as refusalOfGoogle } from "./gcs-store.ts";
import { objectStores } from "./object-stores.ts";
import type { StoreEnvironment } from "./store-settings.ts";

const home = temporaryDirectory();
const tokenFile = path.join(home, "token");
const URL_ASKED = "s3://models/movies";

beforeEach(() => {
  for (const name of Object.keys(process.env)) {
    if (name.startsWith("AWS_")) vi.stubEnv(name, undefined);
  }
  vi.stubEnv("HOME", home);
  vi.stubEnv("AWS_EC2_METADATA_DISABLED", "true");
});

afterEach(() => {
  vi.unstubAllEnvs();
});

async function refusal(environment: StoreEnvironment): Promise<string> {
  const store = objectStores(environment);
  return store.folders(parseObjectUrl(URL_ASKED)).then(
    () => "",
    ({ code, message }: Error & { readonly code: string }) => `${code} ${message}`,
  );
}

function asRole(file: string): void {
  vi.stubEnv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/winnow");
  vi.stubEnv("AWS_WEB_IDENTITY_TOKEN_FILE", file);
}

test("a role that may not be taken is no bucket that is denied", async () => {
  const code = "<Code>AccessDenied</Code>";
  const message = "<Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message>";
  const http = createServer((_, response) => {
    response.writeHead(403, { "content-type": "text/xml" });
    response.end(`<ErrorResponse><Error>${code}${message}</Error></ErrorResponse>`);
  }).listen(0, "127.0.0.1");
  await once(http, "listening");
  const { port } = http.address() as AddressInfo;
  writeFileSync(tokenFile, "token");
  vi.stubEnv("AWS_ENDPOINT_URL_STS", `http://127.0.0.1:${port}`);
  asRole(tokenFile);

  const told = await refusal({ AWS_REGION: "eu-west-1" });
  http.closeAllConnections();
  http.close();

  const reason = "Not authorized to perform sts:AssumeRoleWithWebIdentity";
  expect(told).toBe(
    `UNAUTHENTICATED Cannot read ${URL_ASKED}: there are no credentials: ${reason}`,
  );
});

test("a token of a role that is not mounted is named", async () => {
  asRole("/nowhere/token");

  expect(await refusal({ AWS_REGION: "eu-west-1" })).toMatch(
    /^UNAUTHENTICATED .*there are no credentials: ENOENT.*\/nowhere\/token/,
  );
});

test.each([
  [{ AWS_REGION: "" }, /^UNAUTHENTICATED .*there are no credentials: set AWS_ACCESS_KEY_ID/],
  [
    { AWS_ENDPOINT_URL: "minio:9000" },
    /^INVALID_ARGUMENT AWS_ENDPOINT_URL is "minio:9000", which is no URL: write http:\/\/ or/,
  ],
  [
    { AWS_ENDPOINT_URL_S3: "", AWS_ENDPOINT_URL: "minio:9000" },
    /^INVALID_ARGUMENT AWS_ENDPOINT_URL is/,
  ],
])("%j is refused with what to set", async (environment, message) => {
  expect(await refusal(environment)).toMatch(message);
});

test.each([
  [
    "error:1E08010C:DECODER routines::unsupported",
    /\(the private_key is no PEM: its line breaks may be escaped twice\)/,
  ],
  [
    "Unable to read the credential file specified by the GOOGLE_APPLICATION_CREDENTIALS environment variable: not JSON",
    /credentials that count \(Unable to read the credential file .*: not JSON\)/,
  ],
  ["invalid_client", /credentials that count \(invalid_client\)/],
])("Google's '%s' is told at once, as a fault of the credentials", (message, told) => {
  const { known } = refusalOfGoogle(new Error(message));

  expect(known).toEqual(["UNAUTHENTICATED", expect.stringMatching(told)]);
});

test.each([
  [
    "AggregateAuthenticationError",
    "ChainedTokenCredential authentication failed.\nCredentialUnavailableError: none is set\nAuthenticationRequiredError: ENOENT: '/token'\nCredentialUnavailableError: no CLI",
    "there are no credentials: AuthenticationRequiredError: ENOENT: '/token'",
  ],
  [
    "AuthenticationError",
    "invalid_client: Error(s): 700213 - AADSTS700213: No matching federated identity record.\n Trace",
    "there are no credentials: AADSTS700213: No matching federated identity record.",
  ],
  [
    "AggregateAuthenticationError",
    "ChainedTokenCredential authentication failed.\nCredentialUnavailableError: none is set",
    expect.stringContaining("there are no credentials: set AZURE_STORAGE_KEY"),
  ],
])("of Azure's %s the reason is told", (name, message, told) => {
  const { known } = refusalOfAzure(Object.assign(new Error(message), { name }));

  expect(known).toEqual(["UNAUTHENTICATED", told]);
});
