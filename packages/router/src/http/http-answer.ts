// An answer: status, headers and the bytes of the body; and how errors become answers.

import { withoutKeys } from "@winnow/cluster";
import { httpStatusOf } from "@winnow/core";
import type { ErrorCode, WinnowError } from "@winnow/core";
import { JsonWriter } from "./json/json-writer.ts";

/** A complete answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

const JSON_TYPE = { "content-type": "application/json" } as const;
const RETRIABLE: ReadonlySet<ErrorCode> = new Set(["UNAVAILABLE", "RESOURCE_EXHAUSTED"]);
const NO_BYTES: Buffer = Buffer.alloc(0);

/** A refusal with an HTTP status that no gRPC code stands for, such as 413. */
export class RefusedBody extends Error {
  readonly status: number;
  /** Headers of the answer beside its type. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = "RefusedBody";
    this.status = status;
    this.headers = headers;
  }
}

/** 200 with a JSON body. */
export function jsonAnswer(body: Buffer, headers?: Readonly<Record<string, string>>): HttpAnswer {
  const all = headers === undefined ? JSON_TYPE : { ...JSON_TYPE, ...headers };
  return { status: 200, headers: all, body };
}

/** Plain text. */
export function textAnswer(status: number, text: string): HttpAnswer {
  return { status, headers: { "content-type": "text/plain" }, body: Buffer.from(text) };
}

/** An answer with a JSON content type and no body: TensorFlow Serving's answer to a version beyond int64. */
export function emptyAnswer(status: number, contentType: string): HttpAnswer {
  return { status, headers: { "content-type": contentType }, body: NO_BYTES };
}

/** `{"error": "<text>"}`, laid out as TensorFlow Serving does; texts repeat what clients sent, but no key of theirs. */
export function errorBody(told: string): Buffer {
  const text = withoutKeys(told);
  const writer = new JsonWriter({ bytes: text.length + 64 });
  writer.open("{");
  writer.text("error");
  writer.text(text);
  writer.close();
  return writer.finish();
}

/** The answer with this status and error text. */
export function errorAnswer(status: number, text: string): HttpAnswer {
  return { status, headers: JSON_TYPE, body: errorBody(text) };
}

/** The answer to an expected failure. `retryAfterSeconds` is sent with failures that are worth a retry. */
export function failureAnswer(
  error: WinnowError | RefusedBody,
  retryAfterSeconds: number,
): HttpAnswer {
  if (error instanceof RefusedBody) {
    const refused = errorAnswer(error.status, error.message);
    return { ...refused, headers: { ...refused.headers, ...error.headers } };
  }
  const answer = errorAnswer(httpStatusOf(error.code), error.message);
  if (!RETRIABLE.has(error.code)) return answer;
  return { ...answer, headers: { ...answer.headers, "retry-after": String(retryAfterSeconds) } };
}

const PAGE_TITLES: Readonly<Record<number, readonly [string, string]>> = {
  400: ["400 Bad Request", "Bad Request"],
  404: ["404 Not Found", "Not Found"],
  501: ["501 Not Implemented", "Not Implemented"],
};

/** The page that libevent sends for paths and methods without a JSON answer. */
export function pageAnswer(status: 400 | 404 | 501): HttpAnswer {
  const [title, heading] = PAGE_TITLES[status]!;
  const page =
    `<HTML><HEAD>\n<TITLE>${title}</TITLE>\n</HEAD><BODY>\n` +
    `<H1>${heading}</H1>\n</BODY></HTML>\n`;
  return {
    status,
    headers: { "content-type": "text/html", connection: "close" },
    body: Buffer.from(page),
  };
}
