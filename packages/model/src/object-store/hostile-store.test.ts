// Stores that answer what no store should: that lead elsewhere, send another content or range than was asked for, lie
// about lengths, or list what cannot be.

import type { OutgoingHttpHeaders, RequestListener } from "node:http";
import { parseObjectUrl } from "@winnow/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { servedBy } from "../../../../test/doubles/http-listener.ts";
import {
  DIALECTS,
  type ObjectDialect,
  hasSdk,
} from "../../../../test/doubles/object-server-process.ts";
import { ObjectMirror } from "./object-mirror.ts";
import type { StoredObject } from "./object-store.ts";
import { objectStores } from "./object-stores.ts";
import { storeEnvironment } from "./store-settings.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

const ETAGS = { s3: '"e1"', gs: "101", az: '"0x8E1"' } as const;
const [START, END] = [3000, 4000];
const BYTES = Buffer.alloc(END - START, 7);

/** Reads a range of an object from a store that answers as `listener` does. */
async function read(dialect: ObjectDialect, listener: RequestListener): Promise<Uint8Array> {
  const { environment, urlOf } = DIALECTS[dialect];
  const variables = environment(await servedBy(listener));
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  const object = { key: "movies/1/rows", etag: ETAGS[dialect] };
  const bucket = parseObjectUrl(urlOf("models"));
  return objectStores(storeEnvironment()).read(bucket, object, { start: START, end: END });
}

/** An answer with the range, but for these headers. */
function answering(dialect: ObjectDialect, changed: OutgoingHttpHeaders): RequestListener {
  const etag = ETAGS[dialect];
  const right = {
    "content-length": BYTES.length,
    "content-range": `bytes ${START}-${END - 1}/9999`,
    ...(dialect === "gs" ? { "x-goog-generation": etag } : { etag }),
  };
  const headers = Object.entries({ ...right, ...changed }).filter(
    ([, value]) => value !== undefined,
  );
  return (_request, response) => {
    response.writeHead(206, Object.fromEntries(headers));
    response.end(BYTES);
  };
}

for (const dialect of ["s3", "gs", "az"] as const) {
  describe.skipIf(!hasSdk(dialect))(`${dialect}://`, () => {
    cases(dialect);
  });
}

function cases(dialect: ObjectDialect): void {
  test.each([
    [301, "http://elsewhere.invalid/x?sig=secret"],
    [302, "file:///etc/passwd"],
    [307, "/movies/1/rows"],
    [302, ""],
  ])("an answer that leads elsewhere is not followed: %i %s", async (status, location) => {
    let asked = 0;

    const bytes = read(dialect, (_request, response) => {
      asked += 1;
      response.writeHead(status, location === "" ? {} : { location }).end();
    });

    await expect(bytes).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(
        new RegExp(`rows: it answers ${status}, which leads .* and is not followed`),
      ) as string,
    });
    await expect(bytes).rejects.not.toThrow("secret");
    expect(asked).toBe(1);
  });

  test("an error without words is told by its status", async () => {
    const bytes = read(dialect, (_request, response) => void response.writeHead(503).end());

    await expect(bytes).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/rows: .*503 ?, tried 5 times/) as string,
    });
  });

  test("another content than was listed is not taken, though the store has ignored the condition", async () => {
    const other = dialect === "gs" ? { "x-goog-generation": "102" } : { etag: '"e2"' };

    await expect(read(dialect, answering(dialect, other))).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("it was replaced while it was read") as string,
    });
    await expect(read(dialect, answering(dialect, {}))).resolves.toHaveLength(BYTES.length);
  });

  test.each<[OutgoingHttpHeaders, string]>([
    [{ "content-range": "bytes 0-999/9999" }, "bytes from 0 came in place of those from 3000"],
    [{ "content-range": undefined }, "bytes from 0 came in place of those from 3000"],
    [{ "content-length": 2000 }, "more than 1000 bytes came"],
    [{ "content-length": 500 }, "of 1000 bytes that were asked for 500 came"],
  ])("a range or length that lies is noticed at once: %j", async (changed, text) => {
    await expect(read(dialect, answering(dialect, changed))).rejects.toThrow(text);
  });
}

describe("a listing", () => {
  const listed = (...objects: readonly StoredObject[]): Promise<unknown> => {
    const files = { add: () => undefined, delete: () => undefined };
    const store = {
      folders: async () => [],
      objects: async () => objects,
      read: async () => new Uint8Array(),
    };
    const mirror = new ObjectMirror({ store, files });
    return mirror.open("s3://models/movies/1").finally(() => mirror.close());
  };
  const model = { key: "movies/1/saved_model.pb", bytes: 0, etag: "e" };

  test("that names a key twice with two contents is listed anew, not made a mixture of", async () => {
    await expect(listed(model, { ...model, etag: "f" })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("saved_model.pb: it is listed twice") as string,
    });
  });

  test.each([-1, Number.NaN, 2 ** 52, 0.5])(
    "with a size that is none is refused: %d",
    async (bytes) => {
      await expect(listed({ ...model, bytes })).rejects.toThrow(`it is listed with ${bytes} bytes`);
    },
  );

  test("that repeats itself is taken as if it did not", async () => {
    await expect(listed(model, model)).resolves.toBeDefined();
  });
});

describe.skipIf(!hasSdk("s3"))("a bucket in another region", () => {
  /** Answers where a request is signed for Ireland, and refuses others; and the regions that were asked in. */
  function inIreland(refuse: RequestListener): { listener: RequestListener; asked: string[] } {
    const asked: string[] = [];
    const right = answering("s3", {});
    const listener: RequestListener = (request, response) => {
      const [, region = ""] =
        /Credential=[^/]+\/\d+\/([^/]+)\//.exec(request.headers.authorization ?? "") ?? [];
      asked.push(region);
      (region === "eu-west-1" ? right : refuse)(request, response);
    };
    return { listener, asked };
  }

  const malformed = (more: string): string =>
    `<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message>${more}</Error>`;

  const told = { "x-amz-bucket-region": "eu-west-1" };
  test.each([
    { how: "moved", status: 301, head: told, more: "" },
    { how: "signed for another one, told in the head", status: 400, head: told, more: "" },
    { how: "signed for another one", status: 400, head: {}, more: "<Region>eu-west-1</Region>" },
  ])("is asked there, from the second request on at once: $how", async ({ status, head, more }) => {
    const { listener, asked } = inIreland((_request, response) => {
      response.writeHead(status, head).end(malformed(more));
    });
    const variables = DIALECTS.s3.environment(await servedBy(listener));
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    vi.stubEnv("AWS_REGION", "us-east-1");
    const store = objectStores(storeEnvironment());
    const object = { key: "movies/1/rows", etag: ETAGS.s3 };
    const range = { start: START, end: END };

    await store.read(parseObjectUrl("s3://models"), object, range);
    await store.read(parseObjectUrl("s3://models"), object, range);

    expect(asked).toEqual(["us-east-1", "eu-west-1", "eu-west-1"]);
  });

  test.each([
    ["none is told", ""],
    ["what is told is no region", "<Region>x.evil.example/</Region>"],
  ])("is an error where %s", async (_what, more) => {
    const { listener, asked } = inIreland((_request, response) => {
      response.writeHead(400).end(malformed(more));
    });

    const bytes = read("s3", listener);

    await expect(bytes).rejects.toThrow("AuthorizationHeaderMalformed: the region is wrong");
    expect(asked).toHaveLength(1);
  });
});
