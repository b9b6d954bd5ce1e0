// Amazon S3 and compatible stores (MinIO, Ceph, Cloudflare R2, Google's interoperable endpoint) through the
// official SDK. Credentials, region and endpoint are found where its other users have them (AWS_PROFILE,
// AWS_REGION, AWS_ENDPOINT_URL, roles of pods and machines). The SDK tries a request five times, with growing
// random pauses.

import { Readable } from "node:stream";
import type * as AwsS3 from "@aws-sdk/client-s3";
import type { S3Client, S3ServiceException } from "@aws-sdk/client-s3";
import { WinnowError, excerpt, keepAliveClock, writtenObject } from "@winnow/core";
import type { ObjectBucket, ObjectUrl } from "@winnow/core";
import { bodyOf, isRedirect, redirectText, shortBody } from "./attempts.ts";
import {
  type ByteRange,
  OBJECTS_MAX,
  type ObjectStore,
  REPLACED,
  type StoredObject,
  assertAnswers,
  assertEndpoint,
  assertListable,
  assertPages,
} from "./object-store.ts";
import type { StoreEnvironment } from "./store-settings.ts";

const ATTEMPTS_MAX = 5;
const CONNECT_MS_MAX = 5000;
/** Ms without a byte after which a request fails; one read is of at most 4 MiB. */
const REQUEST_MS_MAX = 30_000;
/** Connections of one thread at the same time. */
const SOCKETS_MAX = 32;

type Sdk = typeof AwsS3;

/** The SDK, and a client of one region. */
interface OpenedClient {
  readonly sdk: Sdk;
  readonly client: S3Client;
}

/** Has a client for each region, made when it is first used. */
export class S3Store implements ObjectStore {
  readonly #environment: StoreEnvironment;
  /** By region; `undefined`: that of the environment. */
  readonly #clients = new Map<string | undefined, Promise<OpenedClient>>();
  /** Regions of buckets that are not in that of the environment, as the store has told. */
  readonly #regions = new Map<string, string>();

  constructor(environment: StoreEnvironment) {
    this.#environment = environment;
  }

  async folders(url: ObjectUrl): Promise<readonly string[]> {
    const below = url.prefix === "" ? "" : `${url.prefix}/`;
    const names: string[] = [];
    for await (const page of this.#pages(url, { Delimiter: "/" })) {
      for (const { Prefix = "" } of page.CommonPrefixes ?? []) {
        names.push(Prefix.slice(below.length, -1));
      }
      assertListable(url, names, { what: "folders" });
    }
    return names;
  }

  async objects(url: ObjectUrl, most: number = OBJECTS_MAX): Promise<readonly StoredObject[]> {
    const found: StoredObject[] = [];
    for await (const page of this.#pages(url, {})) {
      for (const { Key: key = "", Size: bytes = 0, ETag: etag = "" } of page.Contents ?? []) {
        // Consoles create empty objects for folders.
        if (!key.endsWith("/")) found.push({ key, bytes, etag });
      }
      assertListable(url, found, { what: "objects", most });
    }
    return found;
  }

  async read(
    place: ObjectBucket,
    { key, etag }: Pick<StoredObject, "key" | "etag">,
    { start, end }: ByteRange,
  ): Promise<Uint8Array> {
    if (end <= start) return new Uint8Array();
    const what = writtenObject(place, key);
    const input = {
      Bucket: place.bucket,
      Key: key,
      IfMatch: etag,
      Range: `bytes=${start}-${end - 1}`,
    };
    for (let attempt = 1; ; attempt += 1) {
      const answer = await this.#ask(place, what, ({ sdk, client }) =>
        client.send(new sdk.GetObjectCommand(input)),
      );
      // The SDK repeats failed requests, but not those whose body breaks off; nor does it end one that sends the
      // whole object in place of the range.
      const body = answer.Body as Readable;
      const { ETag, ContentLength: bytes, ContentRange: range } = answer;
      try {
        assertAnswers(what, { etag: ETag, bytes, range }, { start, end, etag });
        return await bodyOf(keepAliveClock, body, { what, length: end - start });
      } catch (error) {
        body.destroy();
        if (error instanceof WinnowError) throw error;
        if (attempt < ATTEMPTS_MAX) continue;
        const text = `${(error as Error).message}, ${attempt} times`;
        throw new WinnowError("UNAVAILABLE", `Cannot read ${excerpt(what)}: ${text}`);
      }
    }
  }

  async *#pages(url: ObjectUrl, options: { readonly Delimiter?: string }) {
    const { bucket, prefix } = url;
    let token: string | undefined;
    let pages = 0;
    do {
      assertPages(url, (pages += 1));
      const input = {
        Bucket: bucket,
        Prefix: prefix === "" ? "" : `${prefix}/`,
        ContinuationToken: token,
        ...options,
      };
      const page = await this.#ask(url, `s3://${bucket}/${prefix}`, ({ sdk, client }) =>
        client.send(new sdk.ListObjectsV2Command(input)),
      );
      yield page;
      token = page.NextContinuationToken;
    } while (token !== undefined);
  }

  /** Asks in the region of the bucket. A store that tells another one than it was asked in is asked there from then on. */
  async #ask<Answer>(
    place: ObjectBucket,
    what: string,
    request: (opened: OpenedClient) => Promise<Answer>,
  ): Promise<Answer> {
    const region = this.#regions.get(place.bucket);
    const opened = await this.#open(what, region);
    try {
      return await request(opened);
    } catch (error) {
      const told = region === undefined ? toldRegion(error) : undefined;
      if (told === undefined) throw s3Error(what, error);
      this.#regions.set(place.bucket, told);
      return await this.#ask(place, what, request);
    }
  }

  /** The client, with credentials that it keeps until they end. */
  async #open(what: string, region: string | undefined): Promise<OpenedClient> {
    let opening = this.#clients.get(region);
    if (opening === undefined) {
      opening = openClient(this.#environment, region);
      this.#clients.set(region, opening);
    }
    const opened = await opening;
    // A refusal of whoever gives credentials would look like one of the bucket.
    await opened.client.config.credentials().catch((error: unknown) => {
      throw credentialsError(what, error);
    });
    return opened;
  }
}

const isGiven = (value: string | undefined): value is string => value !== undefined && value !== "";

/**
 * Loads the SDK, which only users of S3 install. `told`: the region, instead of the environment's.
 * @throws WinnowError FAILED_PRECONDITION without it
 */
async function openClient(
  { AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 }: StoreEnvironment,
  told: string | undefined,
): Promise<OpenedClient> {
  const sdk = await import("@aws-sdk/client-s3").catch((cause: unknown) => {
    const text =
      "Cannot read s3://: the package @aws-sdk/client-s3 is not installed; npm install it beside winnow";
    throw new WinnowError("FAILED_PRECONDITION", text, { cause });
  });
  const region = [told, AWS_REGION, AWS_DEFAULT_REGION].find(isGiven);
  const endpoint = [AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL].find(isGiven) ?? "";
  assertEndpoint("AWS_ENDPOINT_URL", endpoint);
  const hasEndpoint = endpoint !== "";
  const client = new sdk.S3Client({
    ...(region !== undefined && { region }),
    ...(region === undefined && hasEndpoint && { region: "us-east-1" }),
    // Only Amazon itself has buckets as host names.
    forcePathStyle: hasEndpoint,
    maxAttempts: ATTEMPTS_MAX,
    // Ranges have no checksums; what is read is checked against the model's own.
    responseChecksumValidation: "WHEN_REQUIRED",
    requestChecksumCalculation: "WHEN_REQUIRED",
    requestHandler: {
      connectionTimeout: CONNECT_MS_MAX,
      requestTimeout: REQUEST_MS_MAX,
      // Else the SDK only logs that the time is over, and waits on.
      throwOnRequestTimeout: true,
      socketTimeout: REQUEST_MS_MAX,
      httpsAgent: { maxSockets: SOCKETS_MAX },
      httpAgent: { maxSockets: SOCKETS_MAX },
    },
  });
  client.middlewareStack.addRelativeTo(withShortBodies, {
    name: "winnowShortBodies",
    relation: "after",
    toMiddleware: "deserializerMiddleware",
  });
  return { sdk, client };
}

/** What the SDK takes into memory as a whole is bounded: all but objects, of which the caller reads as much as it asked for. */
function withShortBodies<Args extends { readonly input: object }, Result>(
  next: (args: Args) => Promise<Result & { readonly response: unknown }>,
  context: Readonly<Record<string, unknown>>,
): typeof next {
  return async (args) => {
    const result = await next(args);
    const response = result.response as { statusCode: number; body: unknown };
    const isObject = context["commandName"] === "GetObjectCommand" && response.statusCode < 300;
    if (!isObject && response.body instanceof Readable) {
      const { Bucket = "", Prefix, Key } = args.input as Readonly<Record<string, string>>;
      const what = `s3://${Bucket}/${Key ?? Prefix ?? ""}`;
      response.body = Readable.from(shortBody(keepAliveClock, response.body, what), {
        objectMode: false,
      });
    }
    return result;
  };
}

const CREDENTIALS =
  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine or pod a role";

/** Known errors by name: code and advice. */
const KNOWN_ERRORS: Readonly<Record<string, readonly [WinnowError["code"], string]>> = {
  NoSuchBucket: ["NOT_FOUND", "there is no such bucket"],
  NoSuchKey: ["NOT_FOUND", "there is no such object"],
  NotFound: ["NOT_FOUND", "there is no such bucket or object"],
  AccessDenied: [
    "PERMISSION_DENIED",
    "access denied: the credentials need s3:ListBucket on the bucket and s3:GetObject on its objects",
  ],
  Forbidden: ["PERMISSION_DENIED", "access denied"],
  InvalidAccessKeyId: ["UNAUTHENTICATED", `the access key is not known: ${CREDENTIALS}`],
  SignatureDoesNotMatch: ["UNAUTHENTICATED", `the secret key does not fit the access key`],
  ExpiredToken: ["UNAUTHENTICATED", "the credentials have expired"],
  CredentialsProviderError: ["UNAUTHENTICATED", `there are no credentials: ${CREDENTIALS}`],
  RequestTimeTooSkewed: ["FAILED_PRECONDITION", "this machine's clock is wrong"],
  PreconditionFailed: REPLACED,
  PermanentRedirect: ["FAILED_PRECONDITION", "the bucket is in another region: set AWS_REGION"],
};

/** How a store refuses a request that was signed for, or sent to, another region than the bucket's. */
const REGION_ERRORS = new Set([
  "PermanentRedirect",
  "AuthorizationHeaderMalformed",
  "IllegalLocationConstraintException",
]);
/** Part of the name of the host that is asked, and so of nothing but letters, digits and hyphens. */
const REGION_NAME = /^[a-z0-9-]{1,32}$/;

/** The region of the bucket where a request was refused for its region; `undefined`: it was not, or none is told. */
function toldRegion(error: unknown): string | undefined {
  const { name, $metadata, $response, Region } = error as S3ServiceException & { Region?: string };
  if (!REGION_ERRORS.has(name) && $metadata?.httpStatusCode !== 301) return undefined;
  const region = $response?.headers["x-amz-bucket-region"] ?? Region;
  return region !== undefined && REGION_NAME.test(region) ? region : undefined;
}

/** What the SDK says where nobody has credentials to give. */
const NO_CREDENTIALS = "Could not load credentials from any providers";

/** The failure of getting credentials: of a profile, of single sign-on, of a role that may not be taken. */
function credentialsError(what: string, error: unknown): WinnowError {
  const { message } = error as Error;
  if (message === NO_CREDENTIALS || message.includes(REGION_MISSING)) return s3Error(what, error);
  const text = `there are no credentials: ${excerpt(message.split("\n")[0]!)}`;
  return new WinnowError("UNAUTHENTICATED", `Cannot read ${excerpt(what)}: ${text}`, {
    cause: error,
  });
}

const REGION_MISSING = "Region is missing";

/** A failed request as a WinnowError. */
function s3Error(what: string, error: unknown): WinnowError {
  if (error instanceof WinnowError) {
    // The SDK adds lines to errors of the reading of a body.
    return new WinnowError(error.code, error.message.split("\n")[0]!);
  }
  const { name, message, $metadata: metadata } = error as S3ServiceException;
  const status = metadata?.httpStatusCode;
  const known =
    KNOWN_ERRORS[name] ?? (status === 412 ? KNOWN_ERRORS["PreconditionFailed"] : undefined);
  const options = { cause: error };
  if (known === undefined && status !== undefined && isRedirect(status)) {
    return new WinnowError(
      "UNAVAILABLE",
      `Cannot read ${excerpt(what)}: ${redirectText(status)}`,
      options,
    );
  }
  if (known !== undefined) {
    return new WinnowError(known[0], `Cannot read ${excerpt(what)}: ${known[1]}`, options);
  }
  if (message.includes(REGION_MISSING)) {
    const text = `Cannot read ${excerpt(what)}: no region is set: set AWS_REGION`;
    return new WinnowError("FAILED_PRECONDITION", text, options);
  }
  const text = unknownText(error as S3ServiceException);
  return new WinnowError("UNAVAILABLE", `Cannot read ${excerpt(what)}: ${text}`, options);
}

function unknownText({ name, message, $metadata: metadata }: S3ServiceException): string {
  const { httpStatusCode: status, attempts } = metadata ?? {};
  // An answer without a body has no name of its own.
  const isNameless = status !== undefined && message === "UnknownError";
  const said = isNameless ? `it answers ${status}` : `${name}: ${excerpt(message)}`;
  return attempts === undefined ? said : `${said}, tried ${attempts} times`;
}
