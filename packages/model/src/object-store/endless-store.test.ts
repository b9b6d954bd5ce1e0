// Stores that never come to an end: of a listing, of what they say of an error, or of the range of an object.

import type { ServerResponse } from "node:http";
import { parseObjectUrl } from "@winnow/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { servedBy } from "../../../../test/doubles/http-listener.ts";
import { DIALECTS, hasPackage, hasSdk } from "../../../../test/doubles/object-server-process.ts";
import { objectStores } from "./object-stores.ts";
import { storeEnvironment } from "./store-settings.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Sends pieces of an answer for as long as anybody reads it; tells of each. */
function sendEndlessly(response: ServerResponse, piece: Uint8Array, onPiece = () => {}): void {
  const more = (): void => {
    do onPiece();
    while (!response.destroyed && response.write(piece));
  };
  response.on("drain", more);
  more();
}

test("a listing of parts without end is refused after two hundred", async () => {
  let pages = 0;
  const host = await servedBy((_request, response) => {
    pages += 1;
    response.end(JSON.stringify({ items: [], nextPageToken: `${pages}` }));
  });
  const store = objectStores({ STORAGE_EMULATOR_HOST: host });

  const listing = store.objects(parseObjectUrl("gs://models/movies/1"));

  await expect(listing).rejects.toThrow("gs://models/movies/1 is listed in more than 200 parts");
  expect(pages).toBe(200);
});

describe.each(["s3", "gs", "az"] as const)("%s://", (dialect) => {
  test.skipIf(!hasSdk(dialect)).each([
    ["a part of a listing", 200],
    ["a passing error", 503],
    ["a refusal", 403],
  ])("%s that never ends is given up before it fills the memory", async (_what, status) => {
    const { environment, urlOf } = DIALECTS[dialect];
    let sentBytes = 0;
    const piece = Buffer.alloc(2 ** 18, " ");
    const host = await servedBy((_request, response) => {
      response.writeHead(status, { "content-type": "application/xml" });
      sendEndlessly(response, piece, () => (sentBytes += piece.length));
    });
    for (const [name, value] of Object.entries(environment(host))) vi.stubEnv(name, value);

    const listing = objectStores(storeEnvironment()).folders(parseObjectUrl(urlOf("models")));

    await expect(listing).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/^Cannot read .* has more than 16777216 bytes$/) as string,
    });
    expect(sentBytes).toBeLessThan(2 ** 28);
  });
});

test.skipIf(!hasPackage("@aws-sdk/client-s3"))(
  "a store that sends an object without end in place of a range is left after its first bytes",
  async () => {
    let sent = 0;
    const piece = Buffer.alloc(2 ** 16);
    const host = await servedBy((_request, response) => {
      sendEndlessly(response, piece, () => (sent += piece.length));
    });
    vi.stubEnv("AWS_ENDPOINT_URL", host);
    vi.stubEnv("AWS_ACCESS_KEY_ID", "key");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
    const store = objectStores({ AWS_ENDPOINT_URL: host });

    const bucket = parseObjectUrl("s3://models");
    const read = store.read(bucket, { key: "movies/1/rows", etag: "e" }, { start: 0, end: 1000 });

    await expect(read).rejects.toThrow("more than 1000 bytes came, 5 times");
    expect(sent).toBeLessThan(2 ** 28);
  },
);
