// A server that speaks the part of an object store's REST API that reading needs, over a directory whose first
// level are buckets: listings in pages, ranges of one content, errors as the store words them, and faults. What the
// stores differ in is in `object-dialects.mjs`.
//
// It is a process of its own (`object-server-process.ts` starts it): who reads models waits for it, and could not
// answer itself. Arguments: the dialect, the directory of buckets, and the keys of a page.

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
import { DIALECTS } from "./object-dialects.mjs";

/** Starts a server on loopback; `pageKeys`: keys of one page of a listing. */
async function startServer(dialect, root, pageKeys) {
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
  const context = { dialect, root, pageKeys, sent: {}, faultOf };
  let readsNow = 0;
  http.on("request", (request, response) => {
    const asked = dialect.asked(new URL(request.url ?? "/", "http://store"), request.headers);
    if (asked.kind === "list") {
      counts.lists += 1;
      list(context, asked, response);
      return;
    }
    readsNow += 1;
    counts.reads += 1;
    counts.readsAtOnceMax = Math.max(counts.readsAtOnceMax, readsNow);
    // What is asked at the same time is under way at the same time.
    setTimeout(() => {
      readsNow -= 1;
      read(context, asked, response);
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

function list(
  { dialect, root, pageKeys, faultOf },
  { bucket, prefix, isByFolder, from },
  response,
) {
  if (failed(dialect, faultOf(prefix), response)) return;
  const directory = path.join(root, bucket);
  if (!existsSync(directory)) return fail(dialect, "no bucket", response);
  const keys = readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(path.join(directory, name)).isFile())
    .filter((name) => name.startsWith(prefix))
    .toSorted();
  const entries = new Map();
  for (const key of keys) {
    const slash = isByFolder ? key.indexOf("/", prefix.length) : -1;
    const folder = key.slice(0, slash + 1);
    if (slash >= 0) entries.set(folder, { folder });
    else {
      const file = path.join(directory, key);
      entries.set(key, { key, bytes: statSync(file).size, etag: dialect.etag(digestOf(file)) });
    }
  }
  const start = Number(from || 0);
  const page = [...entries.values()].slice(start, start + pageKeys);
  const next = start + pageKeys >= entries.size ? undefined : String(start + pageKeys);
  send(response, 200, dialect.page({ bucket, page, next }));
}

function read({ dialect, root, sent, faultOf }, { bucket, key, etag, range }, response) {
  const fault = faultOf(key);
  if (failed(dialect, fault, response)) return;
  const file = path.join(root, bucket, key);
  if (!existsSync(file)) return fail(dialect, "no key", response);
  const own = dialect.etag(digestOf(file));
  if (etag !== undefined && etag !== own) return fail(dialect, "replaced", response);
  const { size } = statSync(file);
  const [, first = "0", last = String(size - 1)] = /^bytes=(\d+)-(\d+)$/.exec(range ?? "") ?? [];
  const bytes = bytesOf(file, Number(first), Math.min(size, Number(last) + 1));
  response.writeHead(206, {
    "content-type": "application/octet-stream",
    "content-length": bytes.length,
    "content-range": `bytes ${first}-${last}/${size}`,
    etag: own,
  });
  if (fault === "cut") {
    response.write(bytes.subarray(0, bytes.length >> 1), () => response.destroy());
    return;
  }
  sent[key] = (sent[key] ?? 0) + bytes.length;
  // One that is slow answers in halves, and keeps its client waiting for either.
  if (fault === "slow") {
    setTimeout(() => response.write(bytes.subarray(0, bytes.length >> 1)), 300);
    setTimeout(() => response.end(bytes.subarray(bytes.length >> 1)), 600);
    return;
  }
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

function failed(dialect, fault, response) {
  const isRefused = fault !== undefined && dialect.refusals.has(fault);
  if (isRefused) fail(dialect, fault, response);
  return isRefused;
}

function fail(dialect, fault, response) {
  const [status, code] = dialect.refusals.get(fault);
  send(response, status, dialect.error(status, code));
}

function send(response, status, { type, headers = {}, body }) {
  response.writeHead(status, { "content-type": type, ...headers }).end(body);
}

/** Of the content; a file that was looked at before, and not touched since, is not read again. */
const digests = new Map();
function digestOf(file) {
  const { size, mtimeNs, ino } = statSync(file, { bigint: true });
  const stamp = `${size} ${mtimeNs} ${ino}`;
  const known = digests.get(file);
  if (known?.stamp === stamp) return known.digest;
  const digest = createHash("md5").update(readFileSync(file)).digest("hex");
  digests.set(file, { stamp, digest });
  return digest;
}

const [dialect = "s3", directory = "", keysOfPage = "3"] = process.argv.slice(2);
const server = await startServer(DIALECTS[dialect], directory, Number(keysOfPage));
// It ends with the process that started it.
process.on("disconnect", () => process.exit());
process.on("message", (faults) => {
  if (faults !== "account") server.setFaults(faults);
  process.send?.(server.account());
});
process.send?.(server.url);
