// Times of day as certificates write them. Nothing here reads a clock.

/** Ms since 1970 of what `X509Certificate` gives: `Nov 24 09:00:00 2026 GMT`. */
export const writtenMs = (text: string): number => Date.parse(text);

/** ISO 8601, for people. */
export const isoTime = (ms: number): string => new Date(ms).toISOString();
