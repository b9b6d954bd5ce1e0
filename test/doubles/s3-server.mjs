// A server that speaks the part of S3's REST API that reading needs, over a directory whose first level are
// buckets: ListObjectsV2 in pages, GetObject with ranges and If-Match, errors as S3 words them, and faults.
// https://docs.aws.amazon.com/AmazonS3/latest/API/
//
// It is a process of its own (`s3-process.ts` starts it): who reads models waits for it, and could not answer
// itself. Arguments: the directory of buckets, and the keys of a page.

import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  statSync,
} from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
/** Starts a server on loopback; `pageKeys`: keys of one page of a listing. */
async function startS3Server(root, pageKeys) {
  const http = createServer();
  await new Promise((resolve) => {
    http.listen(0, "127.0.0.1", resolve);
  });
  let faults = { prefix: "", cycle: [] };
  const counts = { lists: 0, reads: 0, readsAtOnceMax: 0, faults: 0, met: 0 };
  const faultOf = (key) => {
    if (!key.startsWith(faults.prefix)) return undefined;
    const fault = faults.cycle[counts.met % Math.max(1, faults.cycle.length)];
    counts.met += 1;
    if (fault !== undefined && fault !== "none") counts.faults += 1;
    return fault;
  };
  const context = { root, pageKeys, sent: {}, faultOf };
  let readsNow = 0;
  http.on("request", (request, response) => {
    const url = new URL(request.url ?? "/", "http://s3");
    const [, bucket = "", ...rest] = decodeURIComponent(url.pathname).split("/");
    if (url.searchParams.get("list-type") === "2") {
      counts.lists += 1;
      list(context, { bucket, parameters: url.searchParams }, response);
      return;
    }
    readsNow += 1;
    counts.reads += 1;
    counts.readsAtOnceMax = Math.max(counts.readsAtOnceMax, readsNow);
    // What is asked at the same time is under way at the same time.
    setTimeout(() => {
      readsNow -= 1;
      read(context, { bucket, key: rest.join("/"), headers: request.headers }, response);
    }, 2);
  });
  return {
    url: `http://127.0.0.1:${http.address().port}`,
    account: () => ({ ...counts, sent: context.sent }),
    setFaults(changed) {
      faults = changed;
      counts.met = 0;
    },
  };
}
function list({ root, pageKeys, faultOf }, { bucket, parameters }, response) {
  const prefix = parameters.get("prefix") ?? "";
  if (failed(faultOf(prefix), response)) return;
  const directory = path.join(root, bucket);
  if (!existsSync(directory)) return fail(response, 404, "NoSuchBucket");
  const keys = readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(path.join(directory, name)).isFile())
    .filter((name) => name.startsWith(prefix))
    .toSorted();
  const isByFolder = parameters.get("delimiter") === "/";
  const entries = new Map();
  for (const key of keys) {
    const slash = isByFolder ? key.indexOf("/", prefix.length) : -1;
    const common = key.slice(0, slash + 1);
    if (slash >= 0) {
      entries.set(common, `<CommonPrefixes><Prefix>${xml(common)}</Prefix></CommonPrefixes>`);
    } else {
      const bytes = statSync(path.join(directory, key)).size;
      const etag = etagOf(path.join(directory, key));
      const facts = `<Key>${xml(key)}</Key><Size>${bytes}</Size><ETag>${xml(etag)}</ETag>`;
      entries.set(key, `<Contents>${facts}</Contents>`);
    }
  }
  const from = Number(parameters.get("continuation-token") ?? 0);
  const page = [...entries.values()].slice(from, from + pageKeys);
  const isLast = from + pageKeys >= entries.size;
  const next = isLast ? "" : `<NextContinuationToken>${from + pageKeys}</NextContinuationToken>`;
  const head = `<Name>${bucket}</Name><IsTruncated>${!isLast}</IsTruncated>${next}`;
  send(response, 200, `<ListBucketResult>${head}${page.join("")}</ListBucketResult>`);
}
function read({ root, sent, faultOf }, { bucket, key, headers }, response) {
  const fault = faultOf(key);
  if (failed(fault, response)) return;
  const file = path.join(root, bucket, key);
  if (!existsSync(file)) return fail(response, 404, "NoSuchKey");
  const etag = etagOf(file);
  const wanted = headers["if-match"];
  if (wanted !== undefined && wanted !== etag) return fail(response, 412, "PreconditionFailed");
  const { size } = statSync(file);
  const [, first = "0", last = String(size - 1)] =
    /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
  const bytes = bytesOf(file, Number(first), Math.min(size, Number(last) + 1));
  response.writeHead(206, {
    "content-length": bytes.length,
    "content-range": `bytes ${first}-${last}/${size}`,
    etag,
  });
  if (fault === "cut") {
    response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
    return;
  }
  sent[key] = (sent[key] ?? 0) + bytes.length;
  response.end(bytes);
}
function bytesOf(file, start, end) {
  const bytes = Buffer.alloc(end - start);
  const handle = openSync(file, "r");
  try {
    return bytes.subarray(0, readSync(handle, bytes, 0, bytes.length, start));
  } finally {
    closeSync(handle);
  }
}
/** Faults that are answers: their status, and S3's name for them. */
const REFUSALS = new Map([
  ["slow down", [503, "SlowDown"]],
  ["denied", [403, "AccessDenied"]],
  ["unknown key", [403, "InvalidAccessKeyId"]],
  ["wrong secret", [403, "SignatureDoesNotMatch"]],
  ["expired", [400, "ExpiredToken"]],
  ["skewed", [403, "RequestTimeTooSkewed"]],
  ["broken", [500, "InternalError"]],
]);
function failed(fault, response) {
  const refusal = REFUSALS.get(fault);
  if (refusal !== undefined) fail(response, ...refusal);
  return refusal !== undefined;
}
function fail(response, status, code) {
  send(response, status, `<Error><Code>${code}</Code><Message>${code}</Message></Error>`);
}
function send(response, status, body) {
  const document = `<?xml version="1.0" encoding="UTF-8"?>\n${body}`;
  response.writeHead(status, { "content-type": "application/xml" }).end(document);
}
/** Of the content; a file that was looked at before, and not touched since, is not read again. */
const etags = new Map();
function etagOf(file) {
  const { size, mtimeNs, ino } = statSync(file, { bigint: true });
  const stamp = `${size} ${mtimeNs} ${ino}`;
  const known = etags.get(file);
  if (known?.stamp === stamp) return known.etag;
  const etag = `"${createHash("md5").update(readFileSync(file)).digest("hex")}"`;
  etags.set(file, { stamp, etag });
  return etag;
}
const xml = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const [directory = "", keysOfPage = "3"] = process.argv.slice(2);
const server = await startS3Server(directory, Number(keysOfPage));
// It ends with the process that started it.
process.on("disconnect", () => process.exit());
process.on("message", (faults) => {
  if (faults !== "account") server.setFaults(faults);
  process.send?.(server.account());
});
process.send?.(server.url);
