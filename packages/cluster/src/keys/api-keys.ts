// The API keys in a file: the name of each client, what it may do, and how often. The file holds digests
// only, so that reading it gives nobody a key:
//
//   # id   digest          roles                  limits
//   shop   sha256:9f86d0…  roles=predict,status   rate=100 concurrency=16
//
// A key is `winnow_<id>_<secret>` with 256 random bits. A single SHA-256 of that much randomness cannot be
// inverted. A slow hash such as scrypt is for passwords that people can remember, and would let anybody who
// sends wrong keys use up a processor. The id finds the line, and the digests are compared in constant time.

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { WinnowError, excerpt } from "@winnow/core";

/** What a key allows: predictions; reading the state of models and metrics; changing the list of models. */
export type KeyRole = "predict" | "status" | "administer";

/** One client's key, without the key. */
export interface ApiKey {
  readonly id: string;
  readonly digest: Buffer;
  readonly roles: ReadonlySet<KeyRole>;
  /** Requests per second, which may also come at once after a pause; `undefined`: no limit. */
  readonly ratePerSecond: number | undefined;
  /** Requests being answered at the same time; `undefined`: no limit. */
  readonly concurrencyMax: number | undefined;
}

/** The keys of a file, by id. */
export type ApiKeys = ReadonlyMap<string, ApiKey>;

const KEYS_MAX = 1024;
const SECRET_BYTES = 32;
const ROLES: readonly KeyRole[] = ["predict", "status", "administer"];
const isRole = (role: string): boolean => (ROLES as readonly string[]).includes(role);
const ID = /^[a-z0-9][a-z0-9-]{0,62}$/;
const KEY = /^winnow_([a-z0-9][a-z0-9-]{0,62})_[A-Za-z0-9_-]{43}$/;
const KEY_BEGINNING = "winnow_";
const KEYS_WITHIN = /winnow_[a-z0-9-]+_[\w-]{43}/g;
const KEY_CHARACTERS_MAX = 128;
const DIGEST = /^sha256:([0-9a-f]{64})$/;
/** Compared with the digest of a key whose id is unknown, so that the comparison takes as long. */
const NO_DIGEST = Buffer.alloc(32);

/** The properties of a new key. */
export interface NewKey {
  readonly id: string;
  readonly roles: readonly string[];
  readonly rate?: number | undefined;
  readonly concurrency?: number | undefined;
}

/**
 * Makes a key, and the line of the file that accepts it.
 * @throws WinnowError INVALID_ARGUMENT for an id or a role that the file could not hold
 */
export function createKey(wanted: NewKey): { readonly key: string; readonly line: string } {
  const { id, roles, rate, concurrency } = wanted;
  if (!ID.test(id)) {
    throw refusal(`"${excerpt(id)}" is no id of a key: write up to 63 letters a-z, digits and "-"`);
  }
  const unknown = roles.find((role) => !isRole(role));
  if (unknown !== undefined || roles.length === 0) {
    throw refusal(
      `"${excerpt(unknown ?? "")}" is no role: write one or more of ${ROLES.join(", ")}`,
    );
  }
  const key = `winnow_${id}_${randomBytes(SECRET_BYTES).toString("base64url")}`;
  const line = [
    id,
    `sha256:${digestOf(key).toString("hex")}`,
    `roles=${roles.join(",")}`,
    ...(rate === undefined ? [] : [`rate=${rate}`]),
    ...(concurrency === undefined ? [] : [`concurrency=${concurrency}`]),
  ].join(" ");
  readKeys(line, "the new line");
  return { key, line };
}

/**
 * The keys in a file. @throws WinnowError INVALID_ARGUMENT that names the line, and quotes neither a digest
 * nor anything that may be a key
 */
export function readKeys(text: string, source: string): ApiKeys {
  const keys = new Map<string, ApiKey>();
  const idOf = new Map<string, string>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const words = line.trim().split(/\s+/);
    if (words[0] === "" || words[0]?.startsWith("#") === true) continue;
    const where = `Line ${index + 1} of ${source}`;
    const key = readKey(words, where);
    if (keys.has(key.id)) throw refusal(`${where}: the id "${key.id}" stands above it already`);
    const digest = key.digest.toString("hex");
    const twin = idOf.get(digest);
    if (twin !== undefined) {
      const text = `the digest is that of "${twin}": a key holds its id, so make one for "${key.id}" with winnow keys create`;
      throw refusal(`${where}: ${text}`);
    }
    idOf.set(digest, key.id);
    keys.set(key.id, key);
  }
  if (keys.size === 0) {
    throw refusal(`${source} holds no key: winnow keys create writes a line for it`);
  }
  if (keys.size > KEYS_MAX) throw refusal(`${source} holds more than ${KEYS_MAX} keys`);
  return keys;
}

function readKey([id = "", written = "", ...settings]: readonly string[], where: string): ApiKey {
  if (KEY.test(id) || KEY.test(written)) {
    throw refusal(`${where} holds a key itself: it takes the line that winnow keys create prints`);
  }
  if (!ID.test(id)) {
    throw refusal(`${where} must begin with an id of up to 63 letters a-z, digits and "-"`);
  }
  const [, hex] = DIGEST.exec(written) ?? [];
  if (hex === undefined) throw refusal(`${where}: behind the id goes sha256: and 64 hex digits`);
  const values = new Map(settings.map((setting) => settingOf(setting, where)));
  if (values.size < settings.length) {
    throw refusal(`${where}: roles=…, rate=… and concurrency=… stand once each`);
  }
  const roles = (values.get("roles") ?? "").split(",");
  const unknown = roles.find((role) => !isRole(role));
  if (unknown !== undefined) {
    throw refusal(`${where} needs roles=… with one or more of ${ROLES.join(", ")}`);
  }
  return {
    id,
    digest: Buffer.from(hex, "hex"),
    roles: new Set(roles as KeyRole[]),
    ratePerSecond: amountOf(values.get("rate"), `${where}: rate`),
    concurrencyMax: amountOf(values.get("concurrency"), `${where}: concurrency`),
  };
}

function settingOf(setting: string, where: string): readonly [string, string] {
  const [, name = "", value = ""] = /^([a-z]+)=(.*)$/.exec(setting) ?? [];
  if (["roles", "rate", "concurrency"].includes(name)) return [name, value];
  throw refusal(`${where}: after the digest only roles=…, rate=… and concurrency=… are allowed`);
}

function amountOf(text: string | undefined, what: string): number | undefined {
  if (text === undefined) return undefined;
  const amount = Number(text);
  if (/^\d{1,7}$/.test(text) && amount > 0) return amount;
  throw refusal(`${what} must be a whole number from 1 to 9999999, not "${excerpt(text)}"`);
}

const refusal = (message: string): WinnowError => new WinnowError("INVALID_ARGUMENT", message);

function digestOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/**
 * A text of a client without any key in it: clients put keys into paths, names and ids by mistake, and what they
 * send is logged, traced and repeated in errors.
 */
export function withoutKeys(text: string): string {
  return text.includes(KEY_BEGINNING) ? text.replaceAll(KEYS_WITHIN, `${KEY_BEGINNING}…`) : text;
}

/** The presented key, if it is one of these. A text that is not in the form of a key costs no hash. */
export function findKey(keys: ApiKeys, presented: string): ApiKey | undefined {
  if (presented.length > KEY_CHARACTERS_MAX) return undefined;
  const [, id] = KEY.exec(presented) ?? [];
  if (id === undefined) return undefined;
  const key = keys.get(id);
  const isSame = timingSafeEqual(digestOf(presented), key?.digest ?? NO_DIGEST);
  return isSame ? key : undefined;
}
