// The course of one request as the router tells it (`X-Winnow-Timeline`), read into lanes to be drawn: one for each
// stage that the request went through, and under it one for each worker that was asked.

/** A bar. */
export interface TimelineLane {
  readonly name: string;
  /** Whether it is a worker's. */
  readonly isWorker: boolean;
  readonly fromMs: number;
  readonly toMs: number;
  /** Why it failed, or was left. */
  readonly fault: string | undefined;
}

const LANES_MAX = 64;

/** Lanes in the order in which they began; none where nothing was told. */
export function timelineLanes(text: string | undefined): readonly TimelineLane[] {
  if (text === undefined) return [];
  let parts: unknown;
  try {
    parts = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(parts)) return [];
  return (parts as readonly Readonly<Record<string, unknown>>[])
    .slice(0, LANES_MAX)
    .flatMap((part) => {
      const { name, fromMs, toMs, worker, fault } = part;
      if (typeof name !== "string" || typeof fromMs !== "number" || typeof toMs !== "number") {
        return [];
      }
      const isWorker = typeof worker === "string";
      const cause = typeof fault === "string" ? fault : undefined;
      return [{ name: isWorker ? workerName(part) : name, isWorker, fromMs, toMs, fault: cause }];
    });
}

function workerName({ worker, partitions, attempt }: Readonly<Record<string, unknown>>): string {
  const count =
    typeof partitions === "number" ? `, ${partitions} partition${partitions === 1 ? "" : "s"}` : "";
  const again = typeof attempt === "string" && attempt !== "first" ? ` (${attempt})` : "";
  return `${String(worker)}${count}${again}`;
}
