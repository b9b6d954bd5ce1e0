// A version directory whose file of item updates is appended to. Its stamp (`model-storage.ts`) tells how far the file goes,
// so a file that has only grown can be told from one that was replaced, and its former content can still be read: as many
// bytes as before. Hence workers may agree on a length while lines come faster than a content is loaded.
//
//   <hash of all other files>+<the file>+<its bytes>+<its times>
//   <hash of all other files>+<the file>+<its first bytes>+        a start of the file, as another worker loads it
//
// Each worker holds one length until it is the default, and of several lengths that are being loaded all take the shortest
// one: the one that was begun first. Then comes the next. A length that does not become the default in time, because files
// differ, is left behind.

/** How long a length is held that does not become the default. */
const AGREED_MS_MAX = 120_000;

interface GrowingStamp {
  /** Tells all other files of the version. */
  readonly others: string;
  /** Tells the file from one that takes its place. */
  readonly file: string;
  readonly bytes: number;
  /** "": a start of the file. */
  readonly times: string;
}

/** Facts of a file of item updates, as `stat` gives them. */
export interface UpdateFileFacts {
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
}

/** The stamp of a version directory with a file of item updates. */
export function growingStamp(others: string, facts: UpdateFileFacts): string {
  return `${others}+${facts.ino}+${facts.size}+${facts.mtimeMs} ${facts.ctimeMs}`;
}

/** Stamps of stores, and the reasons that stand for the stamp of an unreadable directory, may hold any text. */
const GROWING = /^([0-9a-f]{64})\+(\d+)\+(\d+)\+([-\d. ]*)$/;

function parsed(stamp: string): GrowingStamp | undefined {
  const [, others, file, bytes, times] = GROWING.exec(stamp) ?? [];
  if (others === undefined || file === undefined || times === undefined) return undefined;
  return { others, file, bytes: Number(bytes), times };
}

/** How many bytes of the file of item updates a stamp stands for; `undefined`: there is none. */
export function updateBytesOf(stamp: string): number | undefined {
  return parsed(stamp)?.bytes;
}

/** Whether files are as they were, but for lines that were appended to the file of item updates. */
export function hasGrown(before: string, now: string): boolean {
  const [a, b] = [parsed(before), parsed(now)];
  if (a === undefined || b === undefined || a.others !== b.others || a.file !== b.file)
    return false;
  return b.bytes > a.bytes || (b.bytes === a.bytes && a.times === "");
}

/** The state of a growing file that a worker holds or is about to hold. */
export interface HeldGrowth {
  readonly stamp: string;
  readonly sinceMs: number;
  /** Lengths up to this one are left behind. */
  readonly behind: number;
}

/** What is known when the state to hold is chosen. */
export interface GrowthFacts {
  readonly nowMs: number;
  /** Whether the content of a stamp is the default here, or cannot be loaded; otherwise it is awaited. */
  readonly endOf: (stamp: string) => "default" | "failed" | undefined;
  /** Lengths of contents that other workers load or hold, without the default one of this worker, if it holds that. */
  readonly told: readonly number[];
}

/** Which state of a version directory to hold that has this stamp; `undefined`: it has no file of item updates. */
export function heldGrowth(
  before: HeldGrowth | undefined,
  stamp: string,
  facts: GrowthFacts,
): HeldGrowth | undefined {
  const now = parsed(stamp);
  if (now === undefined) return undefined;
  if (before === undefined || (before.stamp !== stamp && !hasGrown(before.stamp, stamp))) {
    return chosen(stamp, facts, 0);
  }
  const bytes = updateBytesOf(before.stamp)!;
  const end = facts.endOf(before.stamp);
  const isLate = facts.nowMs >= before.sinceMs + AGREED_MS_MAX;
  if (end === undefined && !isLate) {
    const earlier = shortestBeyond(before.behind, facts.told);
    if (earlier === undefined || earlier >= bytes) return before;
    return { ...before, stamp: startOf(now, earlier) };
  }
  if (before.stamp === stamp) return before;
  return chosen(stamp, facts, bytes);
}

/** The shortest length that others have begun, or all of the file. */
function chosen(stamp: string, { nowMs, told }: GrowthFacts, behind: number): HeldGrowth {
  const now = parsed(stamp)!;
  const begun = shortestBeyond(behind, told);
  const isStart = begun !== undefined && begun < now.bytes;
  return { stamp: isStart ? startOf(now, begun) : stamp, sinceMs: nowMs, behind };
}

function shortestBeyond(behind: number, told: readonly number[]): number | undefined {
  const beyond = told.filter((bytes) => bytes > behind);
  return beyond.length === 0 ? undefined : Math.min(...beyond);
}

function startOf({ others, file }: GrowingStamp, bytes: number): string {
  return `${others}+${file}+${bytes}+`;
}
