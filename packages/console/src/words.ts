// Numbers in a readable form.

/** `0.4 s`, `12 s`, `5 min`, `3 h`, `2 d`. */
export function ageText(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** `0 ms`, `0.42 ms`, `12 ms`, `3.1 s`. */
export function durationText(ms: number): string {
  if (ms === 0) return "0 ms";
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 10 ? `${Math.round(ms)} ms` : `${ms.toFixed(2)} ms`;
}

/** `3.0 GiB`. */
export function sizeText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = bytes;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

/** `1,234,567`. */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** `40 %`, never rounded up. */
export function percentText(fraction: number): string {
  return `${Math.floor(fraction * 100)} %`;
}
