// Reads from a Redis to which anybody may have written: a text may have 512 MiB, and an id as much. What is read
// is therefore bounded in Redis, by scripts, before it is sent. What is too long comes as an empty text and what does
// not fit beside the others as `LEFT_OUT`, neither of which is a record; the rest is as with ZRANGE, MGET and GET.
//
// Redis ends leases by its wall clock. Set back by hours, or replaced by a replica whose clock is hours behind, it would
// keep the record of a worker that died for these hours. What copies keys without their expiry (a migration, a restored
// backup) makes records that stay for ever. A record that may stay for longer than a lease lasts is
// therefore given one lease from now: a worker that lives renews its record before that. Set forward, or short of memory,
// Redis loses records before their time: each record is read with the ms that it has left.

import type { Redis } from "ioredis";

/** Stands for a text that another reading may have room for. */
export const LEFT_OUT = " ";

/**
 * ARGV: first and last place, and bytes of an id. How long an id is can only be seen by reading it, so one that is
 * too long for a worker is removed; it comes empty, so that the page keeps its length.
 */
const IDS = `
local ids = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])
local most = tonumber(ARGV[3])
for at = 1, #ids do
  if #ids[at] > most then
    redis.pcall('ZREM', KEYS[1], ids[at])
    ids[at] = ''
  end
end
return ids`;

/**
 * ARGV: bytes of a text, and of all; ms of the lease of an announcement, and of a withdrawal (0: texts without leases).
 * Behind texts with leases come the ms that each has left. A user who may only read shortens no lease. What is no text has no length, and MGET finds none there. So it is for a user
 * who may not ask for lengths: then texts are not bounded. MGET gets no more keys at a time than fit Lua's stack.
 */
const TEXTS = `
local most, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local texts, keys, places = {}, {}, {}
for at = 1, #KEYS do
  local bytes = redis.pcall('STRLEN', KEYS[at])
  if type(bytes) ~= 'number' then bytes = 0 end
  if bytes > most then texts[at] = ''
  elseif bytes > left then texts[at] = '${LEFT_OUT}'
  else
    left = left - bytes
    keys[#keys + 1] = KEYS[at]
    places[#places + 1] = at
  end
end
for from = 1, #keys, 1000 do
  local found = redis.call('MGET', unpack(keys, from, math.min(from + 999, #keys)))
  for at = 1, #found do texts[places[from + at - 1]] = found[at] end
end
local lease, withdrawn = tonumber(ARGV[3]), tonumber(ARGV[4])
for at = 1, lease > 0 and #KEYS or 0 do
  local left = redis.pcall('PTTL', KEYS[at])
  if type(left) ~= 'number' then left = 0 end
  if left == -1 then left = math.huge end
  if left > lease then
    local text = texts[at] or ''
    local whole = string.find(text, '{"withdrawn":', 1, true) and withdrawn or lease
    if left > whole then redis.pcall('PEXPIRE', KEYS[at], whole) end
    left = math.min(left, whole)
  end
  texts[#KEYS + at] = left
end
return texts`;

/** Bytes of a text, and of all texts of a reading together. */
export interface TextBounds {
  readonly most: number;
  readonly all: number;
}

/** A record that is stored under a lease. */
export interface StoredRecord {
  /** As `readTexts` gives it. */
  readonly text: string | null;
  /** Ms that the record would stay without a renewal; 0 or less where that is not known. */
  readonly leftMs: number;
}

/** Ms for which a record stays that nobody renews. */
interface LeaseBounds {
  readonly announced: number;
  readonly withdrawn: number;
}

/** Ids of a sorted set from one place to another; an id of more than `bytesMax` comes as an empty text. */
export async function readIds(
  redis: Redis,
  key: string,
  { from, to, bytesMax }: { readonly from: number; readonly to: number; readonly bytesMax: number },
): Promise<readonly string[]> {
  return (await redis.eval(IDS, 1, key, from, to, bytesMax)) as string[];
}

/**
 * The texts of keys, in their order: `null` where there is none, empty where it is too long to be read, `LEFT_OUT` where
 * all of them together would be.
 */
export async function readTexts(
  redis: Redis,
  keys: readonly string[],
  { most, all }: TextBounds,
): Promise<readonly (string | null)[]> {
  if (keys.length === 0) return [];
  return (await redis.eval(TEXTS, keys.length, ...keys, most, all, 0, 0)) as (string | null)[];
}

/** The records of keys, in their order; none stays longer than its lease. */
export async function readRecords(
  redis: Redis,
  keys: readonly string[],
  { most, all, announced, withdrawn }: TextBounds & LeaseBounds,
): Promise<readonly StoredRecord[]> {
  if (keys.length === 0) return [];
  const bounds = [most, all, announced, withdrawn];
  const read = (await redis.eval(TEXTS, keys.length, ...keys, ...bounds)) as unknown[];
  return keys.map((_, at) => ({
    text: read[at] as string | null,
    leftMs: read[keys.length + at] as number,
  }));
}
