// Seeded requests that no sane client sends: bodies grown from a grammar and then broken, paths and
// methods cut and spliced. Whatever comes, the answer is one of a few statuses and, inside the API,
// an error is `{"error": …}`.

import type { SentRequest } from "../http-client.cases.ts";

/** A stream of requests that depends on its seed alone. */
export class RequestFuzzer {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** The next request. */
  next(): SentRequest {
    const isPlainPost = this.#chance(0.7);
    const method = isPlainPost ? "POST" : this.#pick(METHODS);
    const path = isPlainPost ? this.#pick(PREDICT_PATHS) : this.#path();
    const hasBody = method !== "GET" && method !== "HEAD";
    const headers = this.#chance(0.05) ? this.#pick(HEADERS) : {};
    return { method, path, headers, body: hasBody ? this.#body() : undefined };
  }

  #random(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state / 2 ** 32;
  }

  #chance(probability: number): boolean {
    return this.#random() < probability;
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)]!;
  }

  #path(): string {
    let path = this.#chance(0.7) ? this.#pick(PATHS) : "";
    for (let count = this.#below(4); count > 0; count--) {
      const at = this.#below(path.length + 1);
      const cut = at + this.#below(3);
      path = path.slice(0, at) + this.#pick(PATH_PIECES) + path.slice(cut);
    }
    return path.startsWith("/") ? path : `/${path}`;
  }

  #body(): Buffer {
    const body = Buffer.from(this.#chance(0.8) ? this.#request() : this.#value(0));
    return this.#chance(0.6) ? body : this.#broken(body);
  }

  #request(): string {
    const members = [this.#instances()];
    if (this.#chance(0.2)) members.push(`"k": ${this.#value(2)}`);
    if (this.#chance(0.2)) members.push(`"exclude": ${this.#value(1)}`);
    if (this.#chance(0.2)) members.push(`"signature_name": ${this.#value(3)}`);
    if (this.#chance(0.1)) members.push(this.#instances());
    if (this.#chance(0.2)) members.push(`${this.#text()}: ${this.#value(1)}`);
    return `{${members.toReversed().join(", ")}}`;
  }

  #instances(): string {
    if (this.#chance(0.3)) return `"inputs": ${this.#value(1)}`;
    const rows = Array.from({ length: 1 + this.#below(4) }, () => this.#row());
    return `"instances": [${rows.join(",")}]`;
  }

  #row(): string {
    if (this.#chance(0.6)) return this.#text();
    if (this.#chance(0.6)) return '{"user_id": "1", "movie_title": "Heat (1995)"}';
    return this.#value(2);
  }

  #value(depth: number): string {
    const kind = this.#random();
    if (depth > 4 || kind < 0.3) return this.#pick(SCALARS);
    if (kind < 0.5) return this.#text();
    const values = Array.from({ length: this.#below(4) }, () => this.#value(depth + 1));
    if (kind < 0.8) return `[${values.join(",")}]`;
    return `{${values.map((value) => `${this.#text()}:${value}`).join(",")}}`;
  }

  #text(): string {
    return this.#chance(0.5) ? this.#pick(TEXTS) : `"${this.#pick(["1", "42", "zero", "x"])}"`;
  }

  #broken(whole: Buffer): Buffer {
    let body = whole;
    for (let count = 1 + this.#below(3); count > 0; count--) {
      const at = this.#below(body.length + 1);
      const piece = Buffer.from(this.#pick(BODY_PIECES), "latin1");
      const rest = at + this.#below(3);
      body = this.#chance(0.2)
        ? body.subarray(0, at)
        : Buffer.concat([body.subarray(0, at), piece, body.subarray(rest)]);
    }
    return body;
  }
}

const METHODS = ["GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"];
const PREDICT_PATHS = [
  "/v1/models/retrieval:predict",
  "/v1/models/ranking:predict",
  "/v1/models/retrieval/versions/1:predict",
  "/v1/models/ranking/labels/stable:predict",
  "/v1/models/nobody:predict",
  "/v1/models/retrieval:classify",
  "/v1/models/ranking:regress",
];
const PATHS = [
  ...PREDICT_PATHS,
  "/v1/models/retrieval",
  "/v1/models/broken/versions/2",
  "/v1/models/ranking/metadata",
  "/v1/models/retrieval/labels/stable/metadata",
  "/v1/models",
  "/healthz",
  "/readyz",
  "/openapi.json",
];
const PATH_PIECES = [
  "",
  "/",
  ":",
  "%2F",
  "%00",
  "%",
  "%c3%28",
  "?",
  "#",
  "..",
  "/versions/99999999999999999999",
  "/labels/",
  "metadata",
  "constructor",
  "__proto__",
  "|",
  "1",
  "x".repeat(200),
];
const HEADERS = [
  { "Content-Encoding": "gzip" },
  { "Content-Type": "foo" },
  { "X-Winnow-Allow-Partial": "true" },
  { Origin: "https://a.example" },
  { Accept: "nothing" },
];
const SCALARS = [
  "0",
  "-0",
  "1",
  "3",
  "-1",
  "1.5",
  "1e308",
  "1e309",
  "1e-999",
  "NaN",
  "-Infinity",
  "9223372036854775808",
  "18446744073709551616",
  "123456789012345678901234567890",
  "true",
  "false",
  "null",
];
const TEXTS = [
  '""',
  '"input_1"',
  '"user_id"',
  '"movie_title"',
  '"b64"',
  '"__proto__"',
  '"constructor"',
  '"toString"',
  '"instances"',
  '"inputs"',
  '"serving_default"',
  '"__saved_model_init_op"',
  '"Heat (1995)"',
  String.raw`"\u0000\ud83c\udfac\n"`,
  '"ü日本"',
  `"${"long".repeat(100)}"`,
];
const BODY_PIECES = [
  "",
  "[",
  "]",
  "{",
  "}",
  '"',
  ",",
  ":",
  "\\",
  "\\u",
  "\\ud800",
  "-",
  ".",
  "e",
  "0",
  "\0",
  "\n",
  "\x80\xff",
  "\xef\xbb\xbf",
  "[".repeat(3000),
  '{"a":'.repeat(500),
  "9".repeat(400),
];
