// The timeline of one request (`X-Winnow-Timeline`), as lanes to be drawn: one for each stage of the request,
// and below it one for each worker that was asked.

/** A bar of the chart. */
export interface TimelineLane {
  readonly name: string;
  /** Whether it is a worker's. */
  readonly isWorker: boolean;
  readonly fromMs: number;
  readonly toMs: number;
  /** Why it failed or was abandoned. */
  readonly fault: string | undefined;
}

const LANES_MAX = 64;

/** Lanes in the order in which they began; empty if there is no timeline. */
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
