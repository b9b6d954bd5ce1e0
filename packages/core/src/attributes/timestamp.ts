// Times as in RFC 3339, to the microsecond. Nothing here reads a clock.

// oxlint-disable no-restricted-globals -- `Date` is the calendar, not the clock

const TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))?)?$/;

/**
 * Microseconds since 1970 of a time or a date, UTC if it has no offset; `undefined` for any other text.
 * Digits after the microsecond are dropped.
 */
export function parseTimestamp(text: string): number | undefined {
  const parts = TIME.exec(text);
  if (parts === null) return undefined;
  const [year, month, day, hour, minute, second] = parts
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const atDay = Date.UTC(year!, month! - 1, day);
  const isDay = new Date(atDay).toISOString().startsWith(text.slice(0, 10));
  if (!isDay || year! < 1 || hour! > 23 || minute! > 59 || second! > 60) return undefined;
  const fraction = Number((parts[7] ?? "").padEnd(6, "0").slice(0, 6));
  const sign = parts[9] === "-" ? -1 : 1;
  const offset = sign * (Number(parts[10] ?? 0) * 60 + Number(parts[11] ?? 0));
  const ms = atDay + ((hour! * 60 + minute! - offset) * 60 + second!) * 1000;
  return ms * 1000 + fraction;
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
