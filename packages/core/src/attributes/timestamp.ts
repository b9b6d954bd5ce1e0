// Times as in RFC 3339, to the microsecond. Nothing here reads a clock.

// oxlint-disable no-restricted-globals -- `Date` is the calendar, not the clock

const TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:([Zz])|([+-])([01]\d|2[0-3]):?([0-5]\d))?)?$/;

/**
 * Microseconds since 1970 of a time or a date, UTC if it has no offset; `undefined` for any other text.
 * Digits after the microsecond are dropped, and those that `timeOf` drops.
 */
export function parseTimestamp(text: string): number | undefined {
  const parts = TIME.exec(text);
  if (parts === null) return undefined;
  const [year, month, day, hour, minute, second] = parts
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  // `Date.UTC` takes the years 1 to 99 for 1901 to 1999.
  const atDay = new Date(0).setUTCFullYear(year!, month! - 1, day);
  const isDay = new Date(atDay).toISOString().startsWith(text.slice(0, 10));
  if (!isDay || year! < 1 || hour! > 23 || minute! > 59 || second! > 60) return undefined;
  const fraction = Number((parts[7] ?? "").padEnd(6, "0").slice(0, 6));
  const sign = parts[9] === "-" ? -1 : 1;
  const offset = sign * (Number(parts[10] ?? 0) * 60 + Number(parts[11] ?? 0));
  const ms = atDay + ((hour! * 60 + minute! - offset) * 60 + second!) * 1000;
  const time = ms * 1000 + fraction;
  return Number.isSafeInteger(time) ? time : timeOf(BigInt(ms) * 1000n + BigInt(fraction));
}

const FLOAT = new Float64Array(1);
const BITS = new BigInt64Array(FLOAT.buffer);

/**
 * Microseconds as a number. Before 1685 and after 2255 not every one is a float64: the last one at or before the time
 * stands for it, so that the last microsecond of 9999, which says "for ever", does not become the year 10000.
 */
export function timeOf(microseconds: bigint): number {
  const nearest = Number(microseconds);
  if (BigInt(nearest) <= microseconds) return nearest;
  // The bits of neighbouring floats of one sign are neighbouring integers; away from 0 they grow.
  FLOAT[0] = nearest;
  BITS[0]! += nearest > 0 ? -1n : 1n;
  return FLOAT[0];
}

/** A time as text: `2024-01-31T12:00:00Z`, with as many digits after the second as needed. */
export function timestampText(microseconds: number): string {
  const ms = Math.floor(microseconds / 1000);
  const time = new Date(ms);
  if (Number.isNaN(time.getTime())) return String(microseconds);
  const digits = String(microseconds - Math.floor(microseconds / 1e6) * 1e6).padStart(6, "0");
  const fraction = digits.replace(/0+$/, "");
  const whole = time.toISOString().replace(/\.\d{3}Z$/, "");
  return `${whole}${fraction === "" ? "" : `.${fraction}`}Z`;
}
