// Versions in object stores: what holds of each, and what is one's own.

import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { inspect } from "node:util";
import { type ObjectUrl, parseObjectUrl } from "@winnow/core";
import { describe, expect, test, vi } from "vitest";
import { hasPackage } from "../../../../test/doubles/object-server-process.ts";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { readTracked } from "../../../../test/tracked-files.ts";
import { STORE_PACKAGES, loadSdk } from "./attempts.ts";
import { ObjectMirror } from "./object-mirror.ts";
import { objectStoreCases } from "./object-mirror.cases.ts";
import type { ByteRange } from "./object-store.ts";
import { objectStores } from "./object-stores.ts";
import { RangeReader } from "./range-reader.ts";

objectStoreCases("s3", [
  [
    "denied",
    "PERMISSION_DENIED",
    /s3:\/\/models\/movies\/1: .*need s3:ListBucket on the bucket and s3:GetObject/,
  ],
  ["unknown key", "UNAUTHENTICATED", /access key is not known: set AWS_ACCESS_KEY_ID/],
  ["wrong secret", "UNAUTHENTICATED", /secret key does not fit the access key/],
  ["expired", "UNAUTHENTICATED", /credentials have expired/],
  ["skewed", "FAILED_PRECONDITION", /this machine's clock is wrong/],
]);

objectStoreCases("gs", [
  ["denied", "PERMISSION_DENIED", /gs:\/\/models\/movies\/1: .*role Storage Object Viewer/],
  ["wrong secret", "UNAUTHENTICATED", /not accepted: set GOOGLE_APPLICATION_CREDENTIALS/],
]);

objectStoreCases("az", [
  [
    "denied",
    "PERMISSION_DENIED",
    /az:\/\/winnowtests\/models\/movies\/1: .*Storage Blob Data Reader/,
  ],
  ["wrong secret", "UNAUTHENTICATED", /not accepted, or this machine's clock is wrong: set AZURE_/],
]);

describe("URLs", () => {
  test.each([
    ["s3://models/prod/movies/", { scheme: "s3", bucket: "models", prefix: "prod/movies" }],
    ["gs://my_models", { scheme: "gs", bucket: "my_models", prefix: "" }],
    ["az://account1/models/prod", { scheme: "az", bucket: "account1/models", prefix: "prod" }],
  ])("%s", (url, parsed) => {
    expect(parseObjectUrl(url)).toEqual(parsed);
  });

  test.each([
    ["s3:///movies", "names no bucket: s3://bucket/prefix"],
    ["s3://My_Bucket/movies", "its name 3 to 63 lower-case letters, digits, dots and hyphens"],
    ["gs://", "names no bucket: gs://bucket/prefix"],
    ["az://models/x", "names no storage account and container: az://account/container/prefix"],
    ["az://account", "names no storage account and container"],
    ["hdfs://models/movies", "directories, s3://bucket/prefix, gs://bucket/prefix and az://"],
  ])("%s is refused", (url, message) => {
    expect(() => parseObjectUrl(url)).toThrow(message);
  });
});

test("the packages that are named where they are missing are the ones that are tested", async () => {
  const { peerDependencies } = JSON.parse(readTracked("packages/model/package.json")) as {
    peerDependencies: object;
  };

  expect(STORE_PACKAGES).toEqual(peerDependencies);
  await expect(loadSdk("gs", "no-such-package", ["google-auth-library"])).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(
      /Cannot read gs:.*no-such-package is not installed.*npm install.*google-auth-library@\d+\./,
    ) as string,
  });
});

test.skipIf(!hasPackage("google-auth-library"))(
  "Google's library takes a key file, and names its universe (needs google-auth-library)",
  async () => {
    const file = path.join(temporaryDirectory(), "key.json");
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const pem = privateKey.export({ type: "pkcs8", format: "pem" });
    const key = {
      type: "service_account",
      client_email: "winnow@project.iam.gserviceaccount.com",
      private_key: pem,
      // Tokens of other universes than Google's own are made here, without asking anybody.
      universe_domain: "winnow.invalid",
    };
    writeFileSync(file, JSON.stringify(key));
    vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", file);
    const store = objectStores({});

    const error: unknown = await store
      .folders(parseObjectUrl("gs://models"))
      .catch((reason: unknown) => reason);
    vi.unstubAllEnvs();

    expect(error).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/fetch failed: .* storage\.winnow\.invalid/) as string,
    });
    expect(inspect(error, { depth: 20 })).not.toContain(String(pem).split("\n")[1]);
  },
);

test("keys of another account of Azure are told apart before they are used", async () => {
  const store = objectStores({ AZURE_STORAGE_ACCOUNT: "other", AZURE_STORAGE_KEY: "a2V5" });

  await expect(store.folders(parseObjectUrl("az://account/models"))).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(/for the account other|not installed/) as string,
  });
});

test.each([
  ["that leads out of its version", ["../../../escaped"], "leads out of its version"],
  [
    "of the file of another",
    ["assets/words.txt", "assets//words.txt"],
    "The keys assets/words.txt and assets//words.txt are one file; remove one of them",
  ],
])("a key %s", async (_, names, message) => {
  const scratch = path.join(temporaryDirectory(), "scratch");
  mkdirSync(scratch);
  const store = {
    folders: async () => [],
    objects: async () =>
      ["saved_model.pb", ...names].map((name) => {
        return { key: `movies/1/${name}`, bytes: 1, etag: name };
      }),
    read: async () => new Uint8Array(1),
  };
  const mirror = new ObjectMirror({ store, files: new RangeReader({}), parent: scratch });
  await expect(mirror.open("s3://models/movies/1")).rejects.toThrow(message);
  mirror.close();
  expect(readdirSync(scratch)).toEqual([]);
});

test("pieces of files are downloaded eight at a time, several of one file and of several versions", async () => {
  const pieceBytes = 2 ** 22;
  const files = {
    "saved_model.pb": 1,
    "assets/empty.txt": 0,
    "assets/words.txt": 4 * pieceBytes + 5,
  };
  let reads = 0;
  let most = 0;
  const store = {
    folders: async () => [],
    objects: async ({ prefix }: ObjectUrl) =>
      Object.entries(files).map(([name, bytes]) => ({
        key: `${prefix}/${name}`,
        bytes,
        etag: "a",
      })),
    read: async (_bucket: unknown, _object: unknown, { start, end }: ByteRange) => {
      reads += 1;
      most = Math.max(most, reads);
      await setImmediate();
      reads -= 1;
      return new Uint8Array(end - start).fill(1 + start / pieceBytes);
    },
  };
  const parent = path.join(temporaryDirectory(), "pieces");
  mkdirSync(parent);
  const mirror = new ObjectMirror({ store, files: new RangeReader({}), parent });

  const [opened] = await Promise.all(
    ["s3://models/movies/1", "s3://models/books/1"].map((url) => mirror.open(url)),
  );

  expect(most).toBe(8);
  const words = readFileSync(path.join(opened!.directory, "assets/words.txt"));
  expect(words).toHaveLength(files["assets/words.txt"]);
  const firsts = Array.from({ length: 5 }, (_, piece) => words[piece * pieceBytes]);
  expect(firsts).toEqual(Array.from({ length: 5 }, (_, piece) => 1 + piece));
  expect(readFileSync(path.join(opened!.directory, "assets/empty.txt"))).toHaveLength(0);
  mirror.close();
});
