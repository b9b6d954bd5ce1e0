// Versions of one retrieval model whose every item, row and user differs from every other version's,
// with the answers each must give by brute force, and ways to spoil a version directory. A version
// is written beside the model and then renamed into it, as a training job should do it; or it is copied
// in place, file by file, as one should not.

import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { canonicalScore, widenQueries } from "@winnow/accelerator";
import { StringColumn } from "@winnow/core";
import { writeRetrievalModel } from "@winnow/model-writer";
import type { KnownAnswer, VersionedReply } from "./checked-load.ts";

const ROWS = 1600;
const DIM = 16;
const USERS = 120;
const K = 10;
const ASKED_USERS = 30;

/** Numbers as uneven as float32 can be, the same in every run. */
function noise(count: number, seed: number): Float32Array {
  return Float32Array.from({ length: count }, (_, index) => Math.sin(index * 12.9898 + seed) * 3);
}

const itemRows = (version: number): Float32Array => noise(ROWS * DIM, version);
const userRows = (version: number): Float32Array => noise((USERS + 1) * DIM, 100 + version);

/** As long in every version, so that all versions occupy the same memory. */
const itemId = (version: number, row: number): string =>
  `v${String(version).padStart(2, "0")} item ${row}`;

/** Changes a complete version directory before it appears under its number. */
export type Spoil = (directory: string) => void;

/** Puts a version of `model` into `base`, complete or as `spoil` leaves it, in one step. */
export function publishVersion(
  base: string,
  { model, version, spoil }: { model: string; version: number; spoil?: Spoil },
): void {
  const beside = path.join(base, `.${model}-${version}`);
  writeContent(beside, version);
  spoil?.(beside);
  mkdirSync(path.join(base, model), { recursive: true });
  renameSync(beside, path.join(base, model, String(version)));
}

/** Writes what the version of this number holds, unless its directory is replaced, into a directory. */
export function writeContent(directory: string, content: number): void {
  rmSync(directory, { recursive: true, force: true });
  writeVersion(directory, content, itemRows(content));
}

/** Ways in which people replace what a directory holds. */
export const REPLACEMENTS: Readonly<Record<string, (from: string, to: string) => void>> = {
  "copied over": (from, to) => cpSync(from, to, { recursive: true }),
  "removed and copied anew": (from, to) => {
    rmSync(to, { recursive: true });
    cpSync(from, to, { recursive: true });
  },
  "swapped by renaming": (from, to) => {
    renameSync(to, `${to}.before`);
    renameSync(from, to);
  },
};

function writeVersion(directory: string, version: number, rows: Float32Array): void {
  writeRetrievalModel(directory, {
    users: {
      vocabulary: StringColumn.fromText(Array.from({ length: USERS }, (_, user) => `user ${user}`)),
      embedding: { rows: USERS + 1, dim: DIM, pieces: () => [userRows(version)] },
      place: "asset",
    },
    candidates: { rows: ROWS, dim: DIM, pieces: () => [rows] },
    identifiers: StringColumn.fromText(
      Array.from({ length: ROWS }, (_, row) => itemId(version, row)),
    ),
    k: K,
  });
}

/** The data file of a version directory. */
export const DATA_FILE = "variables/variables.data-00000-of-00001";

/** Cuts a file to a part of its bytes. */
export const cut =
  (file: string, ratio: number): Spoil =>
  (directory) => {
    const name = path.join(directory, file);
    truncateSync(name, Math.floor(readFileSync(name).length * ratio));
  };

/** The vocabulary of users in a version directory: one line each. */
export const VOCABULARY_FILE = "assets/brute_force_sequential_string_lookup_table.txt";

/** Keeps so many lines of the vocabulary, and of the last one only so many characters where told. */
export const cutVocabulary =
  (lines: number, lastLineLength?: number): Spoil =>
  (directory) =>
    rewriteVocabulary(directory, (keys) => {
      const kept = keys.slice(0, lines);
      const last = kept.pop();
      return last === undefined ? [] : [...kept, last.slice(0, lastLineLength)];
    });

/** Lets the first two users change places: as many bytes, lines and keys as before. */
export const swapUsers: Spoil = (directory) =>
  rewriteVocabulary(directory, ([first, second, ...others]) => [second!, first!, ...others]);

function rewriteVocabulary(
  directory: string,
  change: (keys: readonly string[]) => readonly string[],
): void {
  const name = path.join(directory, VOCABULARY_FILE);
  const keys = readFileSync(name, "utf8").trimEnd().split("\n");
  writeFileSync(
    name,
    change(keys)
      .map((key) => `${key}\n`)
      .join(""),
  );
}

/** Lists the files of a version in `SHA256SUMS`, before they are spoilt. */
export const listed =
  (spoil: Spoil): Spoil =>
  (directory) => {
    const names = readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
    const lines = names.map((name) => {
      const sum = createHash("sha256").update(readFileSync(path.join(directory, name)));
      return `${sum.digest("hex")}  ${name}\n`;
    });
    writeFileSync(path.join(directory, "SHA256SUMS"), lines.join(""));
    spoil(directory);
  };

/** Flips one bit of the byte at this part of a file. */
export const flip =
  (file: string, ratio: number): Spoil =>
  (directory) => {
    const name = path.join(directory, file);
    const bytes = readFileSync(name);
    bytes[Math.floor(bytes.length * ratio)]! ^= 1;
    writeFileSync(name, bytes);
  };

/** Takes a file or folder away. */
export const remove =
  (file: string): Spoil =>
  (directory) =>
    rmSync(path.join(directory, file), { recursive: true });

/** Writes the version with NaN as the first value of one candidate row. */
export const notANumber =
  (version: number, row: number): Spoil =>
  (directory) => {
    const rows = itemRows(version);
    rows[row * DIM] = NaN;
    rmSync(directory, { recursive: true });
    writeVersion(directory, version, rows);
  };

/** Replaces a text of the graph by another one of the same length, everywhere. */
export const rename =
  (from: string, to: string): Spoil =>
  (directory) => {
    const name = path.join(directory, "saved_model.pb");
    writeFileSync(name, readFileSync(name, "latin1").replaceAll(from, to), "latin1");
  };

/** Makes a file a link to itself: it is listed, and nobody can open it. */
export const unreadable =
  (file: string): Spoil =>
  (directory) => {
    const name = path.join(directory, file);
    rmSync(name);
    symlinkSync(name, name);
  };

/** Requests with the answers that each of these versions must give, and no other version may. */
export function versionedRequests(model: string, versions: readonly number[]): KnownAnswer[] {
  return askedUsers().map((users) => {
    const expected = new Map(
      versions.map((version) => [String(version), users.map((user) => bestItems(version, user))]),
    );
    return {
      model,
      body: bodyOf(users),
      expected: ({ version, text }: VersionedReply) => isAnswer(text, expected.get(version)),
    };
  });
}

/** Requests that one of these contents must answer, wholly; `told` hears which. */
export function contentRequests(
  model: string,
  contents: readonly number[],
  told: (content: number) => void,
): KnownAnswer[] {
  return askedUsers().map((users) => {
    const answers = contents.map((content) => users.map((user) => bestItems(content, user)));
    return {
      model,
      body: bodyOf(users),
      expected: ({ text }: VersionedReply) => {
        const index = answers.findIndex((answer) => isAnswer(text, answer));
        if (index >= 0) told(contents[index]!);
        return index >= 0;
      },
    };
  });
}

/** A line of `assets.extra/item-updates.jsonl`. */
export interface ItemChange {
  readonly id: string;
  readonly vector?: readonly number[];
  readonly removed?: true;
}

/** Changes of a version's items: so many are new, as many have other vectors, and as many are removed, all chosen by `seed`. */
export function itemChanges(version: number, count: number, seed: number): readonly ItemChange[] {
  const values = noise(2 * count * DIM, 1000 + seed);
  const vectorOf = (at: number): number[] =>
    Array.from(values.subarray(at * DIM, (at + 1) * DIM), (value) => value * 1.5);
  return Array.from({ length: count }, (_, at) => {
    const known = (seed + at * 7) % ROWS;
    return [
      { id: `new ${seed} item ${at}`, vector: vectorOf(at) },
      { id: itemId(version, known), vector: vectorOf(count + at) },
      { id: itemId(version, (known + 3) % ROWS), removed: true },
    ] as const;
  }).flat();
}

/** Adds changes to those of a version directory. */
export function appendChanges(directory: string, changes: readonly ItemChange[]): void {
  mkdirSync(path.join(directory, "assets.extra"), { recursive: true });
  const lines = changes.map((change) => `${JSON.stringify(change)}\n`);
  appendFileSync(path.join(directory, "assets.extra/item-updates.jsonl"), lines.join(""));
}

/** Requests that a version must answer as it is after some of these lists of changes, wholly; `told` hears after how many. */
export function changedRequests(
  { model, version }: { readonly model: string; readonly version: number },
  lists: readonly (readonly ItemChange[])[],
  told: (lists: number) => void,
): KnownAnswer[] {
  const stages = [0, ...lists.map((_, at) => at + 1)].map((count) =>
    itemsAfter(version, lists.slice(0, count).flat()),
  );
  return askedUsers().map((users) => {
    const answers = stages.map((items) =>
      JSON.stringify(users.map((user) => bestOf(items, version, user))),
    );
    return {
      model,
      body: bodyOf(users),
      expected: ({ text }: VersionedReply) => {
        const index = answers.indexOf(answerOf(text));
        if (index >= 0) told(index);
        return index >= 0;
      },
    };
  });
}

const bodyOf = (users: readonly number[]): string =>
  JSON.stringify({ instances: users.map((user) => `user ${user}`) });

/** One known user, or two of them and one that nobody knows. */
function askedUsers(): number[][] {
  return Array.from({ length: ASKED_USERS }, (_, index) =>
    index % 2 === 0 ? [index * 4] : [index * 4, USERS, index],
  );
}

interface BestItems {
  readonly output_1: readonly number[];
  readonly output_2: readonly string[];
}

function isAnswer(text: string, expected: readonly BestItems[] | undefined): boolean {
  return answerOf(text) === JSON.stringify(expected);
}

/** The best items of an answer, as text. */
function answerOf(text: string): string {
  const { predictions } = JSON.parse(text) as { readonly predictions: readonly BestItems[] };
  const read = predictions.map(({ output_1: scores, output_2: ids }) => ({
    output_1: scores.map(Math.fround),
    output_2: ids,
  }));
  return JSON.stringify(read);
}

/** What one process with the whole table would answer; `USERS` is a user nobody knows. */
const bestItems = (version: number, user: number): BestItems =>
  bestOf(itemsAfter(version, []), version, user);

/** Ids and vectors, in the order of their rows. */
type Items = ReadonlyMap<string, Float32Array>;

/** The items of a version after changes, of which those with a vector come last. */
function itemsAfter(version: number, changes: readonly ItemChange[]): Items {
  const rows = itemRows(version);
  const items = new Map<string, Float32Array>();
  for (let row = 0; row < ROWS; row += 1) {
    items.set(itemId(version, row), rows.subarray(row * DIM, (row + 1) * DIM));
  }
  for (const { id, vector } of changes) {
    items.delete(id);
    if (vector !== undefined) items.set(id, Float32Array.from(vector));
  }
  return items;
}

function bestOf(items: Items, version: number, user: number): BestItems {
  const row = user === USERS ? 0 : user + 1;
  const [query] = widenQueries(userRows(version).slice(row * DIM, (row + 1) * DIM), DIM);
  const best = Array.from(items, ([id, values], at) => ({
    id,
    at,
    score: canonicalScore(query!, values, 0),
  }))
    .toSorted((a, b) => b.score - a.score || a.at - b.at)
    .slice(0, K);
  return { output_1: best.map(({ score }) => score), output_2: best.map(({ id }) => id) };
}
