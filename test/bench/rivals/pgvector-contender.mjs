// pgvector as a rival of the filter benchmark: exact search, which is what PostgreSQL does without an index on the
// vectors, with a B-tree on the attribute that is filtered by. It is driven through psql, so that nothing has to be
// installed but PostgreSQL's client; the database is the caller's, and the table in it is made anew.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const TABLE = "winnow_bench_items";
/** Rows that are written to psql in one piece. */
const ROWS_AT_ONCE = 4096;
/** PGCOPY\n\377\r\n\0, flags, length of the header's extension. */
const COPY_HEADER = Buffer.from("5047434f50590aff0d0a000000000000000000", "hex");
const COPY_END = Buffer.from("ffff", "hex");

/** Rows `from` to `to` in COPY's binary format: an id, its bucket, its vector. */
function copyRows({ table, dim, bucketOf }, from, to) {
  const rowBytes = 2 + 8 + 8 + 4 + 4 + 4 * dim;
  const bytes = Buffer.allocUnsafe((to - from) * rowBytes);
  let at = 0;
  const writeInteger = (value) => {
    at = bytes.writeInt32BE(4, at);
    at = bytes.writeInt32BE(value, at);
  };
  for (let row = from; row < to; row += 1) {
    at = bytes.writeInt16BE(3, at);
    writeInteger(row);
    writeInteger(bucketOf(row));
    at = bytes.writeInt32BE(4 + 4 * dim, at);
    at = bytes.writeInt16BE(dim, at);
    at = bytes.writeInt16BE(0, at);
    for (let j = 0; j < dim; j += 1) at = bytes.writeFloatBE(table[row * dim + j], at);
  }
  return bytes;
}

/**
 * Runs statements by a psql of their own, with `input` for a COPY from standard input.
 * @param {Iterable<Buffer>} input
 */
async function runOnce(url, statements, input = []) {
  const flags = [
    "-X",
    "-q",
    "-v",
    "ON_ERROR_STOP=1",
    ...statements.flatMap((each) => ["-c", each]),
  ];
  const child = spawn("psql", [...flags, url], { stdio: ["pipe", "ignore", "inherit"] });
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      if (code === 0) resolve(undefined);
      else reject(new Error(`psql ended with exit code ${code}`));
    });
  });
  // What psql refuses it says itself; a pipe that it has closed says nothing more.
  child.stdin.on("error", () => {});
  for (const bytes of input) {
    if (!child.stdin.write(bytes)) {
      await Promise.race([new Promise((resolve) => child.stdin.once("drain", resolve)), ended]);
    }
  }
  child.stdin.end();
  await ended;
}

/**
 * A PostgreSQL with pgvector at `url`. Buckets of rows are those of the benchmark; `threads` processes share a search
 * of the whole table, as many as PostgreSQL's settings allow.
 */
export function pgvectorRival({ url, threads, bucketOf }) {
  let psql;
  let lines;
  let vectors;
  let dim;
  const say = (text) => psql.stdin.write(`${text}\n`);
  const search = async (row, k, buckets) => {
    const vector = vectors.subarray(row * dim, (row + 1) * dim).join(",");
    say(`EXECUTE search(${buckets}, '[${vector}]', ${k});\n\\echo end`);
    const rows = [];
    for (;;) {
      const { value } = await lines.next();
      if (value === undefined) throw new Error("psql has ended");
      if (value === "end") return rows;
      rows.push(Number(value));
    }
  };
  return {
    name: "pgvector",
    /** Makes the table and the index on its buckets anew, and opens the connection that searches. */
    async load({ table, vectors: queries, rows, dim: width }) {
      [vectors, dim] = [queries, width];
      const pieces = function* () {
        yield COPY_HEADER;
        for (let from = 0; from < rows; from += ROWS_AT_ONCE) {
          yield copyRows({ table, dim, bucketOf }, from, Math.min(from + ROWS_AT_ONCE, rows));
        }
        yield COPY_END;
      };
      await runOnce(
        url,
        [
          "SET client_min_messages = warning",
          "CREATE EXTENSION IF NOT EXISTS vector",
          `DROP TABLE IF EXISTS ${TABLE}`,
          `CREATE TABLE ${TABLE} (id integer, bucket integer, embedding vector(${dim}))`,
          `ALTER TABLE ${TABLE} ALTER embedding SET STORAGE PLAIN`,
          `COPY ${TABLE} FROM STDIN WITH (FORMAT binary)`,
        ],
        pieces(),
      );
      await runOnce(url, [`CREATE INDEX ON ${TABLE} (bucket)`, `VACUUM ANALYZE ${TABLE}`]);
      psql = spawn("psql", ["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", url], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      lines = createInterface({ input: psql.stdout })[Symbol.asyncIterator]();
      // The session's own process takes part beside the workers that it starts.
      say(`SET max_parallel_workers_per_gather = ${threads - 1};`);
      say("SET parallel_setup_cost = 0; SET jit = off; SET plan_cache_mode = force_custom_plan;");
      say(`PREPARE search(integer, vector, integer) AS SELECT id FROM ${TABLE}
        WHERE bucket < $1 ORDER BY embedding <#> $2 LIMIT $3;`);
    },
    /** Queries one after the other, as PostgreSQL has no batches: ms of all, then the rows of the first. */
    async ask(...words) {
      const [from, queries, k, buckets] = words.slice(1);
      const began = performance.now();
      const first = await search(from, k, buckets);
      for (let query = 1; query < queries; query += 1) await search(from + query, k, buckets);
      return [performance.now() - began, ...first];
    },
    async close() {
      psql?.kill();
      await runOnce(url, [`DROP TABLE ${TABLE}`]);
    },
  };
}
