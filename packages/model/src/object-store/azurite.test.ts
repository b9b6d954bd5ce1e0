// Azure Blob Storage against Azurite, Microsoft's own emulator, where AZURITE_URL says that one runs. It is no
// dependency, for it has 186 MB:
//
//   npx azurite@3.35.0 --inMemoryPersistence --skipApiVersionCheck      (in a folder of its own)
//   AZURITE_URL=http://127.0.0.1:10000 npx vitest run --config test/vitest.config.ts --root . azurite

import { randomBytes } from "node:crypto";
import { parseObjectUrl } from "@winnow/core";
import { beforeAll, describe, expect, test } from "vitest";
import { loadSdk } from "./attempts.ts";
import { objectStores } from "./object-stores.ts";

/** Azurite's own account and key, which its documentation publishes. */
const ACCOUNT = "devstoreaccount1";
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

interface Uploads {
  readonly BlobServiceClient: new (
    url: string,
    credential: object,
  ) => {
    getContainerClient(name: string): {
      create(): Promise<unknown>;
      getBlockBlobClient(key: string): { uploadData(data: Uint8Array): Promise<unknown> };
    };
  };
  readonly StorageSharedKeyCredential: new (account: string, key: string) => object;
}

const endpoint = process.env["AZURITE_URL"];

describe.skipIf(endpoint === undefined)("Azurite (AZURITE_URL says where it runs)", () => {
  const AZURE_STORAGE_SERVICE_ENDPOINT = `${endpoint}/${ACCOUNT}`;
  const container = `winnow-${randomBytes(6).toString("hex")}`;
  const url = parseObjectUrl(`az://${ACCOUNT}/${container}/prod/movies`);
  const store = objectStores({ AZURE_STORAGE_SERVICE_ENDPOINT, AZURE_STORAGE_KEY: KEY });
  const rows = randomBytes(300_000);
  let upload: (key: string, data: Uint8Array) => Promise<unknown>;

  beforeAll(async () => {
    const sdk = (await loadSdk("az", "@azure/storage-blob")) as Uploads;
    const credential = new sdk.StorageSharedKeyCredential(ACCOUNT, KEY);
    const service = new sdk.BlobServiceClient(AZURE_STORAGE_SERVICE_ENDPOINT, credential);
    const client = service.getContainerClient(container);
    await client.create();
    upload = (key, data) => client.getBlockBlobClient(key).uploadData(data);
    await upload("prod/movies/1/variables/rows", rows);
    await upload("prod/movies/1/saved_model.pb", Buffer.from("graph"));
    await upload("prod/movies/2/saved model & more.pb", Buffer.from("other"));
    await upload("prod/movies-ranking/1/saved_model.pb", Buffer.from("elsewhere"));
  });

  test("lists versions and objects below a prefix, and reads ranges of what was listed", async () => {
    const objects = await store.objects(url);
    const read = await store.read(url, objects[1]!, { start: 70_001, end: 250_000 });

    expect(await store.folders(url)).toEqual(["1", "2"]);
    expect(objects.map(({ key, bytes }) => [key, bytes])).toEqual([
      ["prod/movies/1/saved_model.pb", 5],
      ["prod/movies/1/variables/rows", rows.length],
      ["prod/movies/2/saved model & more.pb", 5],
    ]);
    expect(Buffer.from(read).equals(rows.subarray(70_001, 250_000))).toBe(true);
  });

  test("reads no blob that was replaced since it was listed", async () => {
    const listed = (await store.objects(url)).at(-1)!;
    await upload(listed.key, Buffer.from("newer"));

    await expect(store.read(url, listed, { start: 0, end: 5 })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("replaced while it was read") as string,
    });
  });

  test.each([
    ["there is no such container", "NOT_FOUND", { container: "no-such-container", key: KEY }],
    ["a wrong key", "PERMISSION_DENIED", { container, key: "d3Jvbmc=" }],
  ])("says why nothing is read: %s", async (why, code, { container: asked, key }) => {
    const other = objectStores({ AZURE_STORAGE_SERVICE_ENDPOINT, AZURE_STORAGE_KEY: key });

    await expect(other.folders(parseObjectUrl(`az://${ACCOUNT}/${asked}`))).rejects.toMatchObject({
      code,
      message: expect.stringContaining(why) as string,
    });
  });
});
