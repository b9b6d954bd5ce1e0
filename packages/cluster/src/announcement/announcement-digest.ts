// A number that stands for what a worker says of itself, so that two processes can tell in a few bytes
// whether they know the same of a third one.

import { crc32c } from "@winnow/core";
import type { Announcement } from "./announcement.ts";

/** A checksum and a length: below 2⁵², so that it travels as a number. */
const LENGTHS = 2 ** 20;

/** The digest of an announcement; equal announcements give equal ones. */
export function announcementDigest(announcement: Announcement): number {
  const bytes = new TextEncoder().encode(JSON.stringify(announcement));
  return crc32c(bytes) * LENGTHS + (bytes.length % LENGTHS);
}
