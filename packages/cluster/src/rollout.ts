// Which version of a model answers by default. Every router and worker derives it from the same
// announcements, so no record of it is needed.

import { WinnowError } from "@winnow/core";
import type { VersionKey } from "@winnow/core";
import type { Announcement } from "./announcement.ts";

/** What the choice depends on beside announcements. */
export interface RolloutContext {
  /** The version that serves now, as this process knows. */
  readonly current: VersionKey | undefined;
  readonly replication: number;
}

/** The version of `model` that serves by default; `undefined` while none can. */
export function servingVersion(
  model: string,
  announcements: readonly Announcement[],
  context: RolloutContext,
): VersionKey | undefined {
  throw new WinnowError("UNIMPLEMENTED", `${model}${announcements.length}${context.replication}`);
}
