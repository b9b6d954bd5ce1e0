// Signs the texts of this cluster in a shared store, and its orders on the wire: an HMAC-SHA-256
// with a secret that the processes share. Purpose and cluster name are signed too, so no text is
// accepted as one of another kind or of another cluster. Several secrets may be valid while one
// replaces another: the first signs, all verify.
//
//   hmac-sha256 <64 hex digits> <text>    signed
//   <text>                                in a cluster without a secret
//
// A signature proves who wrote a text, not when: an incarnation or a number in the text must show
// that it is old. It does not encrypt, and it proves nothing about a connection.

import { createHmac, timingSafeEqual } from "node:crypto";
import { WinnowError } from "@winnow/core";

/** What a signed text is for; a text signed for one purpose is refused for another. */
export type SignedPurpose = "announcement" | "order" | "order draft" | "order to drain";

/** What a secret is made of. */
export interface ClusterSecretSettings {
  /** Clusters of different names do not accept each other's texts, also where secrets are equal. */
  readonly cluster: string;
  /** The first signs, all verify; none: texts are neither signed nor checked. */
  readonly keys: readonly string[];
  /** Whether unsigned texts are accepted too, while a secret is being introduced or given up. */
  readonly acceptsUnsigned: boolean;
}

const SCHEME = "hmac-sha256 ";
const DIGEST_CHARACTERS = 64;
const TEXT_START = SCHEME.length + DIGEST_CHARACTERS + 1;
const KEYS_MAX = 8;
const KEY_CHARACTERS_MIN = 16;
const KEY_CHARACTERS_MAX = 1024;

/** Signs and checks texts. */
export class ClusterSecret {
  readonly #cluster: string;
  readonly #acceptsUnsigned: boolean;
  #keys: readonly string[];
  #revision = 0;

  constructor(settings: ClusterSecretSettings) {
    this.#cluster = settings.cluster;
    this.#acceptsUnsigned = settings.acceptsUnsigned || settings.keys.length === 0;
    this.#keys = settings.keys;
  }

  /** Grows when the secrets change: texts that were verified before must be verified again. */
  get revision(): number {
    return this.#revision;
  }

  /** Replaces the secrets: the file that holds them has changed. */
  replaceKeys(keys: readonly string[]): void {
    this.#keys = keys;
    this.#revision += 1;
  }

  /** The text to store or send: `text` with its signature. */
  sign(purpose: SignedPurpose, text: string): string {
    const [key] = this.#keys;
    return key === undefined ? text : `${SCHEME}${this.#digest(key, purpose, text)} ${text}`;
  }

  /**
   * The text without its signature, which is checked.
   * @throws WinnowError UNAUTHENTICATED for a text that is not signed, or not with a valid secret
   */
  verify(purpose: SignedPurpose, signed: string): string {
    const isSigned = signed.startsWith(SCHEME);
    const text = isSigned ? signed.slice(TEXT_START) : signed;
    if (this.#acceptsUnsigned && (!isSigned || this.#keys.length === 0)) return text;
    const given = Buffer.from(signed.slice(SCHEME.length, TEXT_START - 1), "latin1");
    const isOurs = this.#keys.some((key) => {
      const expected = Buffer.from(this.#digest(key, purpose, text), "latin1");
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
    if (isSigned && isOurs && signed[TEXT_START - 1] === " ") return text;
    const why = isSigned ? "is signed with another secret" : "is not signed";
    throw new WinnowError("UNAUTHENTICATED", `An ${purpose} that ${why}`);
  }

  /** Whether a text that passed `verify` was signed, and did not pass only because there is no secret. */
  hasSigned(signed: string): boolean {
    return this.#keys.length > 0 && signed.startsWith(SCHEME);
  }

  #digest(key: string, purpose: SignedPurpose, text: string): string {
    // Neither purpose nor length contains a line feed, so different (purpose, cluster, text) never
    // give the same bytes.
    const context = `winnow ${purpose}\n${this.#cluster.length}\n${this.#cluster}\n`;
    return createHmac("sha256", key).update(context).update(text).digest("hex");
  }
}

/** A cluster without a secret: nothing is signed, everything is read. */
export function noSecret(cluster = "default"): ClusterSecret {
  return new ClusterSecret({ cluster, keys: [], acceptsUnsigned: true });
}

/**
 * The secrets in a file: one a line, the one that signs first; empty lines and lines that begin
 * with `#` are skipped. @throws WinnowError INVALID_ARGUMENT that never quotes a secret
 */
export function readSecrets(text: string, source: string): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const keys = lines.filter((line) => line !== "" && !line.startsWith("#"));
  if (keys.length === 0 || keys.length > KEYS_MAX) {
    const message = `${source} holds ${keys.length} secrets, not 1 to ${KEYS_MAX}, each on a line`;
    throw new WinnowError("INVALID_ARGUMENT", message);
  }
  const odd = keys.findIndex(
    ({ length }) => length < KEY_CHARACTERS_MIN || length > KEY_CHARACTERS_MAX,
  );
  if (odd >= 0) {
    const bounds = `${KEY_CHARACTERS_MIN} to ${KEY_CHARACTERS_MAX} characters`;
    const message = `Secret ${odd + 1} of ${source} needs ${bounds}: openssl rand -hex 32 writes one`;
    throw new WinnowError("INVALID_ARGUMENT", message);
  }
  return keys;
}
