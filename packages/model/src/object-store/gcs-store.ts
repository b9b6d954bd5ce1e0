// Google Cloud Storage through its JSON API, with credentials from Google's own library, which finds them
// where other tools do (GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, workload
// identity federation, service accounts of machines and pods). An object's generation is its etag: a read
// names it, and gets that content or fails.
//
// Requests are made by Node: Google's own client for the store, @google-cloud/storage 7, does not notice a
// connection that is cut within a body. The library is no dependency of Winnow, so that only those who need
// it install it; the types below stand in for its own.

import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { type ObjectBucket, type ObjectUrl, keepAliveClock, writtenObject } from "@winnow/core";
import {
  type AnswerWatch,
  type AttemptTimes,
  type Refusal,
  bodyOf,
  inAttempts,
  inTime,
  isRedirect,
  loadSdk,
  redirectText,
  shortBody,
} from "./attempts.ts";
import {
  type ByteRange,
  OBJECTS_MAX,
  type ObjectStore,
  REPLACED,
  type RangeHead,
  type StoredObject,
  assertAnswers,
  assertListable,
  assertPages,
} from "./object-store.ts";
import type { StoreEnvironment } from "./store-settings.ts";

/** The part of `google-auth-library` that is used. */
interface AuthSdk {
  readonly GoogleAuth: new (options: { readonly scopes: string }) => GoogleAuth;
}

interface GoogleAuth {
  getUniverseDomain(): Promise<string>;
  getRequestHeaders(url: string): Promise<Headers>;
}

/** The address of the API, and the authorization for requests. */
interface Api {
  readonly url: string;
  readonly headers: (url: string) => Promise<Headers>;
}

interface Page {
  readonly prefixes?: readonly string[];
  readonly items?: readonly {
    readonly name: string;
    readonly size: string;
    readonly generation: string;
  }[];
  readonly nextPageToken?: string;
}

const PACKAGE = "google-auth-library";
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_only";
/** Characters of an error's reason, at most. */
const REASON_CHARACTERS_MAX = 1000;

/** An answer with an error status. */
class HttpRefusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** An answer that leads elsewhere. */
class Redirection extends Error {}

/** Finds the address and the credentials at the first request. */
export class GcsStore implements ObjectStore {
  readonly #environment: StoreEnvironment;
  readonly #times: AttemptTimes;
  #api: Promise<Api> | undefined;

  constructor(environment: StoreEnvironment, times: AttemptTimes) {
    this.#environment = environment;
    this.#times = times;
  }

  async folders(url: ObjectUrl): Promise<readonly string[]> {
    const below = url.prefix === "" ? "" : `${url.prefix}/`;
    const names: string[] = [];
    const query = { delimiter: "/", fields: "prefixes,nextPageToken" };
    for await (const { prefixes = [] } of this.#pages(url, query)) {
      for (const prefix of prefixes) names.push(prefix.slice(below.length, -1));
      assertListable(url, names, { what: "folders" });
    }
    return names;
  }

  async objects(url: ObjectUrl, most: number = OBJECTS_MAX): Promise<readonly StoredObject[]> {
    const found: StoredObject[] = [];
    const query = { fields: "items(name,size,generation),nextPageToken" };
    for await (const { items = [] } of this.#pages(url, query)) {
      for (const { name: key, size, generation: etag } of items) {
        // Consoles create empty objects for folders.
        if (!key.endsWith("/")) found.push({ key, bytes: Number(size), etag });
      }
      assertListable(url, found, { what: "objects", most });
    }
    return found;
  }

  async read(
    place: ObjectBucket,
    { key, etag: generation }: Pick<StoredObject, "key" | "etag">,
    { start, end }: ByteRange,
  ): Promise<Uint8Array> {
    if (end <= start) return new Uint8Array();
    const api = await this.#open();
    const query = new URLSearchParams({ alt: "media", generation });
    const url = `${api.url}/b/${place.bucket}/o/${encodeURIComponent(key)}?${query.toString()}`;
    const asked = { what: writtenObject(place, key), refusal: refusalOfRead };
    const { clock } = this.#times;
    return inAttempts(this.#times, asked, async () => {
      // Without this encoding, an object that is stored compressed would be sent decompressed, and as a whole.
      const range = { range: `bytes=${start}-${end - 1}`, "accept-encoding": "gzip" };
      const answer = await inTime(clock, (watch) => answered(api, url, { more: range, watch }));
      const body = bodyIn(answer);
      try {
        assertAnswers(asked.what, headOf(answer), { start, end, etag: generation });
      } catch (error) {
        body.destroy();
        throw error;
      }
      return bodyOf(clock, body, { what: asked.what, length: end - start });
    });
  }

  async *#pages(url: ObjectUrl, options: Readonly<Record<string, string>>) {
    const api = await this.#open();
    const asked = { what: writtenObject(url, url.prefix), refusal };
    const { clock } = this.#times;
    const prefix = url.prefix === "" ? "" : `${url.prefix}/`;
    let pageToken: string | undefined;
    let pages = 0;
    do {
      assertPages(url, (pages += 1));
      const from = pageToken === undefined ? {} : { pageToken };
      const query = new URLSearchParams({ ...options, prefix, ...from });
      const page: Page = await inAttempts(this.#times, asked, () =>
        inTime(clock, async (watch) => {
          const at = `${api.url}/b/${url.bucket}/o?${query.toString()}`;
          const answer = await answered(api, at, { more: {}, watch });
          return JSON.parse(await textOf(bodyIn(answer), asked.what, watch.came)) as Page;
        }),
      );
      yield page;
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined);
  }

  #open(): Promise<Api> {
    this.#api ??= openApi(this.#environment, this.#times);
    return this.#api;
  }
}

async function openApi(
  { STORAGE_EMULATOR_HOST: host = "" }: StoreEnvironment,
  times: AttemptTimes,
): Promise<Api> {
  if (host !== "") {
    // As Google's clients take it, with or without scheme and path; credentials are dropped.
    const { origin, pathname } = new URL(/^https?:\/\//.test(host) ? host : `http://${host}`);
    const path = pathname === "/" ? "/storage/v1" : pathname.replace(/\/+$/, "");
    return { url: `${origin}${path}`, headers: async () => new Headers() };
  }
  const { GoogleAuth } = (await loadSdk("gs", PACKAGE)) as AuthSdk;
  const auth = new GoogleAuth({ scopes: SCOPE });
  const asked = { what: "gs://", refusal };
  const domain = await inAttempts(times, asked, () => auth.getUniverseDomain());
  return {
    url: `https://storage.${domain}/storage/v1`,
    headers: (url) => auth.getRequestHeaders(url),
  };
}

/** A successful answer, which has a body. @throws HttpRefusal; Error without an answer */
async function answered(
  api: Api,
  url: string,
  {
    more,
    watch: { signal, came },
  }: { readonly more: Readonly<Record<string, string>>; readonly watch: AnswerWatch },
): Promise<Response> {
  const headers = await api.headers(url);
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  const answer = await fetch(url, { headers, signal, redirect: "manual" });
  if (answer.ok && answer.body !== null) return answer;
  if (isRedirect(answer.status)) {
    await answer.body?.cancel();
    throw new Redirection(redirectText(answer.status, answer.headers.get("location") ?? ""));
  }
  const said = answer.body === null ? "" : await textOf(bodyIn(answer), "gs://", came);
  throw new HttpRefusal(answer.status, reasonIn(said));
}

function bodyIn({ body }: Response): Readable {
  return Readable.fromWeb(body as ReadableStream<Uint8Array>);
}

function headOf({ headers }: Response): RangeHead {
  const length = headers.get("content-length");
  // What is decompressed on the way has another length than its head says.
  const isAsSent = length !== null && headers.get("content-encoding") === null;
  return {
    etag: headers.get("x-goog-generation") ?? undefined,
    bytes: isAsSent ? Number(length) : undefined,
    range: headers.get("content-range") ?? undefined,
  };
}

async function textOf(
  body: Readable,
  what: string,
  came: (bytes: number) => void,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of shortBody(keepAliveClock, body, what)) {
    chunks.push(chunk);
    came((bytes += chunk.length));
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** The reason in an error's body, which may be JSON, or any text from a proxy. */
function reasonIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { readonly error?: { readonly message?: string } };
    return error?.message ?? text.slice(0, REASON_CHARACTERS_MAX);
  } catch {
    return text.slice(0, REASON_CHARACTERS_MAX);
  }
}

const CREDENTIALS =
  "set GOOGLE_APPLICATION_CREDENTIALS, run gcloud auth application-default login, or give the machine or pod a service account";

const KNOWN: ReadonlyMap<number | undefined, NonNullable<Refusal["known"]>> = new Map([
  [401, ["UNAUTHENTICATED", `the credentials are not accepted: ${CREDENTIALS}`]],
  [
    403,
    [
      "PERMISSION_DENIED",
      "access denied: the account needs storage.objects.list and storage.objects.get on the bucket (the role Storage Object Viewer)",
    ],
  ],
  [404, ["NOT_FOUND", "there is no such bucket"]],
]);

/** Messages of Google's library that say what is wrong with the credentials themselves. */
const UNUSABLE =
  /default credentials|credential file|invalid_(grant|rapt|client)|does not exist|DECODER routines/;

/** @internal tests call it */
export function refusal(error: unknown): Refusal {
  if (error instanceof HttpRefusal) {
    const { status, message } = error;
    return { status, text: `${status} ${message}`, known: KNOWN.get(status) };
  }
  const { message, cause } = error as Error;
  if (error instanceof Redirection) {
    return { status: undefined, text: message, known: ["UNAVAILABLE", message] };
  }
  if (UNUSABLE.test(message)) {
    const isNoKey = message.includes("DECODER routines");
    const why = isNoKey
      ? "the private_key is no PEM: its line breaks may be escaped twice"
      : message.split("\n")[0];
    const text = `there are no credentials that count (${why}): ${CREDENTIALS}`;
    return { status: undefined, text, known: ["UNAUTHENTICATED", text] };
  }
  const why = cause instanceof Error ? `: ${cause.message}` : "";
  return { status: undefined, text: `${message}${why}` };
}

/** The generation was listed before, so one that is gone was replaced. */
function refusalOfRead(error: unknown): Refusal {
  const found = refusal(error);
  if (found.status !== 404 && found.status !== 412) return found;
  return {
    ...found,
    known: REPLACED,
  };
}
