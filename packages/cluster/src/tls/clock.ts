// Times of day as certificates write them. Nothing here reads a clock.

/** Ms since 1970 from a time as `X509Certificate` gives it: `Nov 24 09:00:00 2026 GMT`. */
export const writtenMs = (text: string): number => Date.parse(text);

/** A time in ISO 8601, for people. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();
