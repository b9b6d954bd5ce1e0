// The record of a worker in a shared store, to which anybody may have written. A record is accepted
// if it is signed as `trust/cluster-secret.ts` says, has one of these two forms, and names an
// address that workers may have.
//
//   {"worker_id": …}                                  announced
//   {"withdrawn":true,"worker_id":…,"incarnation":…}  has left

import { WinnowError, excerpt, incarnation } from "@winnow/core";
import type { Incarnation, WorkerId } from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import {
  announcementFromJson,
  announcementToJson,
  decodeWorkerId,
} from "../announcement/announcement-codec.ts";
import type { ClusterSecret } from "../trust/cluster-secret.ts";
import type { AddressRules } from "../trust/worker-address.ts";
import { INCARNATION_MAX } from "../announcement/succession.ts";

/** What decides whether a record is accepted. */
export interface RecordTrust {
  readonly secret: ClusterSecret;
  readonly addresses: AddressRules;
}

/** A record that was read and checked. */
export type MembershipRecord =
  | { readonly kind: "announced"; readonly announcement: Announcement }
  | {
      readonly kind: "withdrawn";
      readonly workerId: WorkerId;
      readonly incarnation: Incarnation;
    };

/** Characters of a record that is accepted. */
export const RECORD_CHARACTERS_MAX: number = 4 * 1024 * 1024;

/** The text to store. */
export function encodeRecord(record: MembershipRecord, secret: ClusterSecret): string {
  const text =
    record.kind === "announced"
      ? announcementToJson(record.announcement)
      : JSON.stringify({
          withdrawn: true,
          worker_id: record.workerId,
          incarnation: record.incarnation,
        });
  return secret.sign("announcement", text);
}

/**
 * Reads a stored text.
 * @throws WinnowError INVALID_ARGUMENT for a malformed record, UNAUTHENTICATED for a record without
 * a valid signature of this cluster, PERMISSION_DENIED for an address that workers may not have
 */
export function decodeRecord(stored: string, trust: RecordTrust): MembershipRecord {
  if (stored.length > RECORD_CHARACTERS_MAX) {
    throw new WinnowError("INVALID_ARGUMENT", `A record of ${stored.length} characters`);
  }
  const text = trust.secret.verify("announcement", stored);
  const withdrawal = withdrawalIn(text);
  if (withdrawal !== undefined) return withdrawal;
  const announcement = announcementFromJson(text);
  checkAddress(announcement, trust.addresses);
  return { kind: "announced", announcement };
}

/**
 * Refuses an announcement whose address workers may not have, because its readers would connect
 * there.
 * @throws WinnowError PERMISSION_DENIED
 */
export function checkAddress({ address }: Announcement, addresses: AddressRules): void {
  const fault = addresses.faultOf(address);
  if (fault === undefined) return;
  const text = `Workers are not connected to at "${excerpt(address)}": ${fault}`;
  throw new WinnowError("PERMISSION_DENIED", text);
}

function withdrawalIn(text: string): MembershipRecord | undefined {
  if (!text.startsWith('{"withdrawn"')) return undefined;
  const fields = parsedObject(text);
  const id = fields["worker_id"];
  const life = fields["incarnation"];
  const isNumbered = typeof life === "number" && Number.isInteger(life) && life >= 0;
  if (!isNumbered || life > INCARNATION_MAX) {
    throw new WinnowError("INVALID_ARGUMENT", "Malformed withdrawal");
  }
  return { kind: "withdrawn", workerId: decodeWorkerId(id), incarnation: incarnation(life) };
}

function parsedObject(text: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new WinnowError("INVALID_ARGUMENT", "A record is not JSON", { cause });
  }
}
