// When the files of a version directory may be opened. A directory that appears by a rename is complete when
// it is first seen; one that is copied file by file changes from look to look. A single look cannot tell
// these two apart, so a directory is opened only after two looks, some time apart, have found the same files.
//
//   seen anew ──▶ waiting ──▶ still: as it is now
//       ▲            │ changed
//       │            ▼
//       │         copying ──▶ still       changes for too long: opened all the same, to learn why
//       └── changed ─────────────┘
//
// Waiting only avoids opens that would fail; wrong answers are prevented by the checks made when a version is
// opened and read. If a copy pauses, or a network file system shows changes late, a directory may be opened
// too early: that open fails, or its content is replaced when the files change.

import { hasGrown } from "./growing-file.ts";

/** How long a file that is appended to may leave no rest between two looks. */
const GROWTH_MS_MAX = 1000;

/** A complete version directory. */
export interface FoundVersion {
  readonly version: number;
  readonly directory: string;
  readonly stamp: string;
}

/** The stamp of a directory that has had no model file for long; files have a longer one. */
export const NO_FILES_STAMP = "";

/** How long files must stay unchanged. */
export interface StillnessSettings {
  /** Files count as still once they have looked the same for this long. */
  readonly stillMs: number;
  /** Files that keep changing for this long are opened all the same, and again each time as long has passed. */
  readonly copyMsMax: number;
}

/** What the looks at one version directory have shown so far. */
export interface ObservedDirectory {
  /** The directory as last seen. */
  readonly seen: FoundVersion;
  /** Since when the directory has looked like `seen`. */
  readonly sinceMs: number;
  /** Changes that have not ended yet; `undefined`: the files are still. */
  readonly unrest: Unrest | undefined;
  /** What is to be opened: the directory as it was when last still, or when it had changed for too long. */
  readonly still: FoundVersion | undefined;
}

/** A directory that changes from look to look. */
interface Unrest {
  readonly sinceMs: number;
  /** Whether more than one look has shown a change. */
  readonly isCopying: boolean;
  /** Whether the last change was nothing but a file that is appended to. */
  readonly isGrowth: boolean;
}

interface LookContext {
  readonly nowMs: number;
  readonly settings: StillnessSettings;
}

/** What is known of a directory after another look. */
export function observed(
  before: ObservedDirectory | undefined,
  seen: FoundVersion,
  context: LookContext,
): ObservedDirectory {
  const { nowMs } = context;
  if (before?.seen.stamp === seen.stamp && before.seen.directory === seen.directory) {
    return before.unrest === undefined ? before : settled(before, before.unrest, context);
  }
  const began = before?.unrest;
  const isGrowth = before?.still !== undefined && hasGrown(before.seen.stamp, seen.stamp);
  const isFirst = began === undefined || (isGrowth && !began.isGrowth);
  const sinceMs = isFirst ? nowMs : began.sinceMs;
  const unrest = { sinceMs, isCopying: began !== undefined, isGrowth };
  return settled({ seen, sinceMs: nowMs, unrest, still: before?.still }, unrest, context);
}

/** The directory, with `still` set if its files are still by now or have changed for too long. */
function settled(
  directory: ObservedDirectory,
  unrest: Unrest,
  { nowMs, settings }: LookContext,
): ObservedDirectory {
  const { seen, sinceMs } = directory;
  if (nowMs >= sinceMs + settings.stillMs) {
    return { seen, sinceMs, unrest: undefined, still: seen };
  }
  // Lines that are appended all the time leave no moment of rest.
  const msMax = unrest.isGrowth ? Math.min(GROWTH_MS_MAX, settings.copyMsMax) : settings.copyMsMax;
  const isTooLong = unrest.isCopying && nowMs >= unrest.sinceMs + msMax;
  if (!isTooLong) return directory;
  return { seen, sinceMs, unrest: { ...unrest, sinceMs: nowMs }, still: seen };
}

/** What is known of a directory after a look that did not find it, or found it without a model file. */
export function unobserved(
  before: ObservedDirectory | undefined,
  nowMs: number,
): ObservedDirectory | undefined {
  const still = before?.still;
  return still && { seen: still, sinceMs: nowMs, unrest: undefined, still };
}
