// Stores that never come to an end: of a listing, or of the range of an object.

import { parseObjectUrl } from "@winnow/core";
import { afterEach, expect, test, vi } from "vitest";
import { servedBy } from "../../../../test/doubles/http-listener.ts";
import { hasPackage } from "../../../../test/doubles/object-server-process.ts";
import { objectStores } from "./object-stores.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

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

test("a part of a listing that never ends is given up", async () => {
  const host = await servedBy((_request, response) => {
    const piece = " ".repeat(2 ** 20);
    const more = (): void => {
      while (!response.destroyed && response.write(piece));
    };
    response.on("drain", more);
    more();
  });
  const store = objectStores({ STORAGE_EMULATOR_HOST: host });

  const listing = store.folders(parseObjectUrl("gs://models"));

  await expect(listing).rejects.toThrow("a part of a listing has more than 16777216 bytes");
});

test.skipIf(!hasPackage("@aws-sdk/client-s3"))(
  "a store that sends an object without end in place of a range is left after its first bytes",
  async () => {
    let sent = 0;
    const host = await servedBy((_request, response) => {
      const piece = Buffer.alloc(2 ** 16);
      const more = (): void => {
        do sent += piece.length;
        while (!response.destroyed && response.write(piece));
      };
      response.on("drain", more);
      more();
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
