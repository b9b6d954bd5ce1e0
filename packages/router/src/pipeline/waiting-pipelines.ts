// Pipelines that may not be asked yet, because a model that they name is missing or lacks what they need.
// Their status says so, and the version before them goes on answering.

import type { Fingerprint, ModelProgram } from "@winnow/core";
import { WinnowError, excerpt, fallbackPipelineOf, toWinnowError } from "@winnow/core";
import type { RoutingTable } from "@winnow/cluster";
import type { LoadedProgram } from "../versions/loaded-program.ts";
import { defaultVersion } from "../versions/version-resolution.ts";
import { lackOf } from "./member-check.ts";
import type { MemberOf } from "./member-check.ts";

/** Which pipelines are looked at. */
interface PipelineLook {
  /** Whether this router can read what users have seen. */
  readonly knowsSeenItems: boolean;
  /** Pipelines of models alone, or those that name another pipeline, which may itself wait. */
  readonly askedFor: "models" | "pipelines";
}

/** What each pipeline lacks with the models of a table, by content. Pipelines that lack nothing are left out. */
export function waitingPipelines(
  table: RoutingTable,
  ready: readonly (readonly [Fingerprint, Pick<LoadedProgram, "program">])[],
  { knowsSeenItems, askedFor }: PipelineLook,
): ReadonlyMap<Fingerprint, WinnowError> {
  const programs = new Map(ready.map(([print, { program }]) => [print, program]));
  const memberOf = membersOf(table, programs);
  const waiting = new Map<Fingerprint, WinnowError>();
  for (const [print, program] of programs) {
    if (program.pipeline === undefined) continue;
    const isNaming = fallbackPipelineOf(program.pipeline) !== undefined;
    if (isNaming !== (askedFor === "pipelines")) continue;
    const lack = lackOf(program, memberOf, knowsSeenItems);
    if (lack === undefined) continue;
    waiting.set(print, new WinnowError("UNAVAILABLE", `The pipeline waits: ${lack}`));
  }
  return waiting;
}

function membersOf(
  table: RoutingTable,
  programs: ReadonlyMap<Fingerprint, ModelProgram>,
): MemberOf {
  return (name) => {
    const model = table.models.get(name);
    if (model === undefined) return { missing: "no worker has a model of that name" };
    try {
      const { version, fingerprint } = defaultVersion(model).key;
      return programs.get(fingerprint) ?? { missing: `version ${version} is being loaded` };
    } catch (error) {
      return { missing: excerpt(toWinnowError(error).message) };
    }
  };
}
