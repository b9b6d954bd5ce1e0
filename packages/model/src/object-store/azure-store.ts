// Azure Blob Storage through the official SDK. Credentials are read from the variables of Azure's command
// line: a connection string, a key or a shared access signature; without these, from Azure's own chain
// (managed and workload identities, `az login`). Hierarchical namespaces list their directories as empty
// blobs, which are skipped.
//
// The SDK is no dependency of Winnow, so that only those who need it install it; the types below stand in for
// its own.

import type { Readable } from "node:stream";
import {
  type ObjectBucket,
  type ObjectUrl,
  WinnowError,
  excerpt,
  writtenObject,
} from "@winnow/core";
import {
  type AnswerWatch,
  type AttemptTimes,
  type Refusal,
  assertShort,
  bodyOf,
  inAttempts,
  inTime,
  isRedirect,
  loadSdk,
  redirectText,
} from "./attempts.ts";
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

/** The part of `@azure/storage-blob` that is used. */
interface AzureSdk {
  readonly BlobServiceClient: {
    new (url: string, credential?: unknown, options?: object): AzureService;
    fromConnectionString(text: string, options: object): AzureService;
  };
  readonly StorageSharedKeyCredential: new (account: string, key: string) => object;
}

/** The part of `@azure/identity` that is used. */
interface IdentitySdk {
  readonly DefaultAzureCredential: new () => object;
}

interface AzureService {
  readonly accountName: string;
  getContainerClient(name: string): AzureContainer;
}

interface AzureContainer {
  listBlobsFlat(options: object): Paged<{ readonly blobItems: readonly AzureBlob[] }>;
  listBlobsByHierarchy(
    delimiter: string,
    options: object,
  ): Paged<{ readonly blobPrefixes?: readonly { readonly name: string }[] }>;
  getBlobClient(key: string): {
    download(
      offset: number,
      count: number,
      options: object,
    ): Promise<{
      readonly readableStreamBody?: Readable;
      readonly etag?: string;
      readonly contentLength?: number;
      readonly contentRange?: string;
    }>;
  };
}

interface Paged<Segment> {
  byPage(
    options: object,
  ): AsyncIterable<{ readonly segment: Segment; readonly continuationToken?: string }>;
}

interface AzureBlob {
  readonly name: string;
  readonly properties: { readonly contentLength?: number; readonly etag?: string };
}

interface AzureError {
  readonly name?: string;
  readonly code?: string;
  readonly statusCode?: number;
  readonly message?: string;
}

const PACKAGE = "@azure/storage-blob";
const IDENTITY_PACKAGE = "@azure/identity";

/** Has one client for each account, made when it is first used. */
export class AzureStore implements ObjectStore {
  readonly #environment: StoreEnvironment;
  readonly #times: AttemptTimes;
  readonly #services = new Map<string, Promise<AzureService>>();

  constructor(environment: StoreEnvironment, times: AttemptTimes) {
    this.#environment = environment;
    this.#times = times;
  }

  async folders(url: ObjectUrl): Promise<readonly string[]> {
    const below = prefixOf(url);
    const names: string[] = [];
    const pages = this.#pages(url, (container, options) =>
      container.listBlobsByHierarchy("/", options),
    );
    for await (const { blobPrefixes = [] } of pages) {
      for (const { name } of blobPrefixes) names.push(name.slice(below.length, -1));
      assertListable(url, names, { what: "folders" });
    }
    return names;
  }

  async objects(url: ObjectUrl, most: number = OBJECTS_MAX): Promise<readonly StoredObject[]> {
    const found: StoredObject[] = [];
    const pages = this.#pages(url, (container, options) => container.listBlobsFlat(options));
    for await (const { blobItems } of pages) {
      for (const { name: key, properties } of blobItems) {
        const { contentLength: bytes = 0, etag = "" } = properties;
        if (!key.endsWith("/")) found.push({ key, bytes, etag });
      }
      assertListable(url, found, { what: "objects", most });
    }
    return withoutDirectories(found);
  }

  async read(
    place: ObjectBucket,
    { key, etag }: Pick<StoredObject, "key" | "etag">,
    { start, end }: ByteRange,
  ): Promise<Uint8Array> {
    if (end <= start) return new Uint8Array();
    const container = await this.#container(place);
    const blob = container.getBlobClient(key);
    const asked = { what: writtenObject(place, key), refusal: refusalOfRead };
    const { clock } = this.#times;
    const conditions = { ifMatch: etag };
    return inAttempts(this.#times, asked, async () => {
      const answer = await inTime(clock, ({ signal: abortSignal }) =>
        blob.download(start, end - start, { conditions, abortSignal, maxRetryRequests: 0 }),
      );
      const { readableStreamBody: body, contentLength: bytes, contentRange: range } = answer;
      try {
        assertAnswers(asked.what, { etag: answer.etag, bytes, range }, { start, end, etag });
      } catch (error) {
        body!.destroy();
        throw error;
      }
      return bodyOf(clock, body!, { what: asked.what, length: end - start });
    });
  }

  async *#pages<Segment>(
    url: ObjectUrl,
    list: (container: AzureContainer, options: object) => Paged<Segment>,
  ) {
    const container = await this.#container(url);
    const asked = { what: writtenObject(url, url.prefix), refusal };
    const prefix = prefixOf(url);
    let continuationToken: string | undefined;
    let pages = 0;
    do {
      assertPages(url, (pages += 1));
      const from = continuationToken;
      const page = await inAttempts(this.#times, asked, () =>
        inTime(this.#times.clock, async (watch) => {
          const requestOptions = { onDownloadProgress: watching(asked.what, watch) };
          const abortSignal = watch.signal;
          const pages = list(container, { prefix, abortSignal, requestOptions }).byPage({
            continuationToken: from,
          });
          for await (const first of pages) return first;
          return undefined;
        }),
      );
      if (page !== undefined) yield page.segment;
      continuationToken = page?.continuationToken;
    } while (continuationToken !== undefined && continuationToken !== "");
  }

  async #container({ bucket }: ObjectBucket): Promise<AzureContainer> {
    const [account = "", container = ""] = bucket.split("/");
    const known = this.#services.get(account) ?? openService(account, this.#environment);
    this.#services.set(account, known);
    return (await known).getContainerClient(container);
  }
}

/** Counts the bytes of an answer, which the SDK takes in as a whole, and ends the request if the answer does not end. */
function watching(what: string, { abort, came }: AnswerWatch) {
  return ({ loadedBytes }: { readonly loadedBytes: number }): void => {
    came(loadedBytes);
    try {
      assertShort(what, loadedBytes);
    } catch (error) {
      abort(error as Error);
    }
  };
}

const prefixOf = ({ prefix }: ObjectUrl): string => (prefix === "" ? "" : `${prefix}/`);

/** The objects without empty blobs that stand for directories. */
function withoutDirectories(objects: readonly StoredObject[]): readonly StoredObject[] {
  const directories = new Set<string>();
  for (const { key } of objects) {
    for (let at = key.indexOf("/"); at >= 0; at = key.indexOf("/", at + 1)) {
      directories.add(key.slice(0, at));
    }
  }
  return objects.filter(({ key, bytes }) => bytes > 0 || !directories.has(key));
}

async function openService(account: string, of: StoreEnvironment): Promise<AzureService> {
  const { BlobServiceClient, StorageSharedKeyCredential } = (await loadSdk("az", PACKAGE, [
    IDENTITY_PACKAGE,
  ])) as AzureSdk;
  // Attempts are made by `inAttempts`, not by the SDK.
  const options = { retryOptions: { maxTries: 1 }, redirectOptions: { maxRetries: 0 } };
  const text = given(of.AZURE_STORAGE_CONNECTION_STRING);
  if (text !== undefined) {
    const service = connected(() => BlobServiceClient.fromConnectionString(text, options));
    assertAccount("AZURE_STORAGE_CONNECTION_STRING", service.accountName, account);
    return service;
  }
  const endpoint =
    given(of.AZURE_STORAGE_SERVICE_ENDPOINT) ?? `https://${account}.blob.core.windows.net`;
  assertEndpoint("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint);
  const key = given(of.AZURE_STORAGE_KEY);
  const token = given(of.AZURE_STORAGE_SAS_TOKEN);
  if (key ?? token) {
    assertAccount("AZURE_STORAGE_ACCOUNT", given(of.AZURE_STORAGE_ACCOUNT) ?? account, account);
  }
  if (key !== undefined) {
    return new BlobServiceClient(endpoint, new StorageSharedKeyCredential(account, key), options);
  }
  if (token !== undefined) {
    return new BlobServiceClient(`${endpoint}?${token.replace(/^\?/, "")}`, undefined, options);
  }
  const { DefaultAzureCredential } = (await loadSdk("az", IDENTITY_PACKAGE)) as IdentitySdk;
  return new BlobServiceClient(endpoint, new DefaultAzureCredential(), options);
}

/** Connects without quoting the credentials, which the SDK's error might. @throws WinnowError FAILED_PRECONDITION */
function connected(connect: () => AzureService): AzureService {
  try {
    return connect();
  } catch {
    const text = "Cannot read az://: AZURE_STORAGE_CONNECTION_STRING is none";
    throw new WinnowError("FAILED_PRECONDITION", text);
  }
}

/**
 * Refuses credentials of another account, which Azure would report as wrong ones. @throws WinnowError
 * FAILED_PRECONDITION
 */
function assertAccount(variable: string, own: string, account: string): void {
  if (own === account) return;
  const text = `Cannot read az://${account}/: ${variable} is for the account ${own}, and one process reads with the keys of one account`;
  throw new WinnowError("FAILED_PRECONDITION", text);
}

const given = (text: string | undefined): string | undefined => (text === "" ? undefined : text);

const CREDENTIALS =
  "set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, run az login, or give the machine or pod an identity";

const KNOWN: Readonly<Record<string, NonNullable<Refusal["known"]>>> = {
  ContainerNotFound: ["NOT_FOUND", "there is no such container"],
  AuthenticationFailed: [
    "UNAUTHENTICATED",
    `the key, signature or token is not accepted, or this machine's clock is wrong: ${CREDENTIALS}`,
  ],
  AuthorizationFailure: [
    "PERMISSION_DENIED",
    "access denied: by the account's network rules, the rights of the signature, or a wrong key",
  ],
  AuthorizationPermissionMismatch: [
    "PERMISSION_DENIED",
    "access denied: the identity needs the role Storage Blob Data Reader on the container",
  ],
  CredentialUnavailableError: ["UNAUTHENTICATED", `there are no credentials: ${CREDENTIALS}`],
  AggregateAuthenticationError: ["UNAUTHENTICATED", `there are no credentials: ${CREDENTIALS}`],
  AuthenticationError: ["UNAUTHENTICATED", `the credentials are not accepted: ${CREDENTIALS}`],
};

/** Errors of `@azure/identity` that several ways to credentials may have caused. */
const IDENTITY_ERRORS: ReadonlySet<string> = new Set([
  "AggregateAuthenticationError",
  "AuthenticationError",
]);

/** For errors whose name is not known, by HTTP status. */
const KNOWN_STATUS: ReadonlyMap<number | undefined, NonNullable<Refusal["known"]>> = new Map([
  [401, KNOWN["AuthenticationFailed"]!],
  [403, KNOWN["AuthorizationPermissionMismatch"]!],
  [404, ["NOT_FOUND", "there is no such container or blob"]],
]);

/** What the identity service said, or the first way to credentials that is set up and failed; `undefined`: neither. */
function credentialsReason({ name = "", message = "" }: AzureError): string | undefined {
  if (!IDENTITY_ERRORS.has(name)) return undefined;
  const said = /AADSTS\d+:[^\n]*/.exec(message)?.[0];
  const [, ...ways] = message.split("\n");
  return said ?? ways.find((way) => !/^\s*($|CredentialUnavailableError)/.test(way));
}

/** @internal tests call it */
export function refusal(error: unknown): Refusal {
  const { name = "", code = "", statusCode: status, message = String(error) } = error as AzureError;
  const reason = credentialsReason(error as AzureError);
  if (reason !== undefined) {
    const text = `there are no credentials: ${excerpt(reason)}`;
    return { status, text, known: ["UNAUTHENTICATED", text] };
  }
  const known = KNOWN[code] ?? KNOWN[name] ?? KNOWN_STATUS.get(status);
  if (known === undefined && status !== undefined && isRedirect(status)) {
    const text = redirectText(status);
    return { status, text, known: ["UNAVAILABLE", text] };
  }
  // A shared access signature may be part of URLs in the message.
  const [line = ""] = message.replaceAll(/([?&]sig=)[^&\s]+/g, "$1…").split("\n");
  return { status, text: [status, code, line].filter(Boolean).join(" "), known };
}

/** The blob was listed before: if it is gone, or has another etag, it was replaced. */
function refusalOfRead(error: unknown): Refusal {
  const found = refusal(error);
  const { code } = error as AzureError;
  const isGone = found.status === 412 || code === "BlobNotFound";
  if (!isGone) return found;
  return {
    ...found,
    known: REPLACED,
  };
}
