// The time of day, as a person's clock shows it.

/** `14:03:20` where the person is; `seconds` since 1970. */
export function timeText(seconds: number): string {
  const time = new Date(seconds * 1000);
  const parts = [time.getHours(), time.getMinutes(), time.getSeconds()];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}
