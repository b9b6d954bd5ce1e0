// Runs on pinned models, and once more as a whole on their successors if one of them was lost.

import { WinnowError } from "@winnow/core";
import type { PipelineRun } from "./pipeline-run.ts";

/** The pinned models of one run, by name. */
type Members<Member> = ReadonlyMap<string, Member>;

/** How the models of a pipeline are pinned, compared and asked. */
export interface MemberRun<Member, Answer> {
  readonly pin: () => Promise<Members<Member>>;
  /** Whether two pins of one name have the same content. */
  readonly isSame: (before: Member, now: Member) => boolean;
  /** Runs on pinned members; `outlives` is called with work on them that outlives the answer. */
  readonly run: (members: Members<Member>, outlives: PipelineRun["outlives"]) => Promise<Answer>;
}

/**
 * Runs on pinned members, and releases them. If one of them was lost meanwhile, runs once more, as a whole,
 * on what the names mean by then: an answer never mixes two versions. If the names still mean the same,
 * nothing was lost (a busy router refuses as well), and another run would only add load.
 */
export async function runOnMembers<Member extends { release(): void }, Answer>({
  pin,
  isSame,
  run,
}: MemberRun<Member, Answer>): Promise<Answer> {
  const members = await pin();
  try {
    return await runThenRelease(members, run);
  } catch (error) {
    if (!(error instanceof WinnowError) || error.code !== "UNAVAILABLE") throw error;
    const now = await pin().catch(() => {
      throw error;
    });
    return await runThenRelease(now, async (again, outlives) => {
      if ([...again].every(([model, member]) => isSame(members.get(model)!, member))) throw error;
      return await run(again, outlives);
    });
  }
}

/** Releases the members once nothing works on them: with the answer, or when work that outlives it has settled. */
async function runThenRelease<Member extends { release(): void }, Answer>(
  members: Members<Member>,
  run: MemberRun<Member, Answer>["run"],
): Promise<Answer> {
  const outliving: Promise<unknown>[] = [];
  const release = (): void => {
    for (const member of members.values()) member.release();
  };
  try {
    return await run(members, (work) => void outliving.push(work));
  } finally {
    if (outliving.length === 0) release();
    else void Promise.allSettled(outliving).then(release);
  }
}
