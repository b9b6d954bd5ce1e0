// What a worker stores of itself in a shared store, where anybody may have written. With a cluster
// secret each record carries an HMAC-SHA-256 over its text; without it the text stands alone.
//
//   {"worker_id": …}                                  announced
//   {"withdrawn":true,"worker_id":…,"incarnation":…}  has left
//   hmac-sha256 <64 hex digits> <either of these>     signed

import { createHmac, timingSafeEqual } from "node:crypto";
import { WinnowError, incarnation, workerId } from "@winnow/core";
import type { Incarnation, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement.ts";
import { announcementFromJson, announcementToJson } from "../announcement-codec.ts";

/** A record that was read and checked. */
export type MembershipRecord =
  | { readonly kind: "announced"; readonly announcement: Announcement }
  | {
      readonly kind: "withdrawn";
      readonly workerId: WorkerId;
      readonly incarnation: Incarnation;
    };

const SCHEME = "hmac-sha256 ";
const DIGEST_CHARACTERS = 64;
const RECORD_CHARACTERS_MAX = 4 * 1024 * 1024;

/** The text to store. */
export function encodeRecord(record: MembershipRecord, secret: string | undefined): string {
  const text =
    record.kind === "announced"
      ? announcementToJson(record.announcement)
      : JSON.stringify({
          withdrawn: true,
          worker_id: record.workerId,
          incarnation: record.incarnation,
        });
  return secret === undefined ? text : `${SCHEME}${digestOf(text, secret)} ${text}`;
}

/**
 * Reads a stored text.
 * @throws WinnowError INVALID_ARGUMENT for what is no record, UNAUTHENTICATED where a secret is set
 * and the signature is not this cluster's
 */
export function decodeRecord(stored: string, secret: string | undefined): MembershipRecord {
  if (stored.length > RECORD_CHARACTERS_MAX) {
    throw new WinnowError("INVALID_ARGUMENT", `A record of ${stored.length} characters`);
  }
  const text = secret === undefined ? unsignedText(stored) : verifiedText(stored, secret);
  return withdrawalIn(text) ?? { kind: "announced", announcement: announcementFromJson(text) };
}

function withdrawalIn(text: string): MembershipRecord | undefined {
  if (!text.startsWith('{"withdrawn"')) return undefined;
  const fields = parsedObject(text);
  const id = fields["worker_id"];
  const life = fields["incarnation"];
  if (typeof id !== "string" || !Number.isSafeInteger(life)) {
    throw new WinnowError("INVALID_ARGUMENT", "Malformed withdrawal");
  }
  return {
    kind: "withdrawn",
    workerId: workerId(id),
    incarnation: incarnation(life as number),
  };
}

function parsedObject(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", "A record is not JSON", { cause });
  }
}

/** A cluster without a secret reads signed records too, so that a secret can be introduced. */
function unsignedText(stored: string): string {
  const start = SCHEME.length + DIGEST_CHARACTERS + 1;
  return stored.startsWith(SCHEME) ? stored.slice(start) : stored;
}

function verifiedText(stored: string, secret: string): string {
  const digest = stored.slice(SCHEME.length, SCHEME.length + DIGEST_CHARACTERS);
  const text = unsignedText(stored);
  const expected = Buffer.from(digestOf(text, secret));
  const given = Buffer.from(digest);
  const isSigned = stored.startsWith(SCHEME) && given.length === expected.length;
  if (!isSigned || !timingSafeEqual(given, expected)) {
    throw new WinnowError("UNAUTHENTICATED", "A record without this cluster's signature");
  }
  return text;
}

function digestOf(text: string, secret: string): string {
  return createHmac("sha256", secret).update(text).digest("hex");
}
