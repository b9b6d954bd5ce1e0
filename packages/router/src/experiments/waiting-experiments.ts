// Experiments that may not be asked yet, because the model of an arm is missing or does not fit. Their status
// says why, and the version before them goes on answering. An arm whose model loses its replicas later is not
// waited for: only the requests of that arm fail. Nor is one whose model goes later, where a fallback answers for it.

import type { ArmTarget, Fingerprint, ModelProgram } from "@winnow/core";
import { WinnowError, excerpt, toWinnowError } from "@winnow/core";
import type { RoutedVersion, RoutingTable } from "@winnow/cluster";
import type { LoadedProgram } from "../versions/loaded-program.ts";
import { experimentLack, experimentLackLater } from "./arm-signatures.ts";

/** Tables, and how the name of an arm's model is read in the new one. */
interface ExperimentLook {
  readonly table: Pick<RoutingTable, "models">;
  /** Absent for the first table of a router. */
  readonly previous: Pick<RoutingTable, "models"> | undefined;
  readonly resolve: (target: ArmTarget) => RoutedVersion;
}

/** What each experiment lacks with the models of a table, by content. Experiments that lack nothing are left out. */
export function waitingExperiments(
  { table, previous, resolve }: ExperimentLook,
  ready: readonly (readonly [Fingerprint, Pick<LoadedProgram, "program">])[],
): ReadonlyMap<Fingerprint, WinnowError> {
  const programs = new Map(ready.map(([print, { program }]) => [print, program]));
  const answered = answeredIn(previous);
  const waiting = new Map<Fingerprint, WinnowError>();
  for (const { contents } of table.models.values()) {
    for (const { key } of contents) {
      const { experiment } = programs.get(key.fingerprint) ?? {};
      if (experiment === undefined) continue;
      const lackOf = answered.has(key.fingerprint) ? experimentLackLater : experimentLack;
      const lack = lackOf(experiment, key, (arm) => programOf(arm, programs, resolve));
      if (lack === undefined) continue;
      const text = `The experiment waits: ${lack}`;
      waiting.set(key.fingerprint, new WinnowError("UNAVAILABLE", text));
    }
  }
  return waiting;
}

/** The contents that a table has answered with. */
function answeredIn(table: ExperimentLook["previous"]): ReadonlySet<Fingerprint> {
  const contents = [...(table?.models.values() ?? [])].flatMap((model) => model.contents);
  const answering = contents.filter(({ refusal }) => refusal === undefined);
  return new Set(answering.map(({ key }) => key.fingerprint));
}

function programOf(
  arm: ArmTarget,
  programs: ReadonlyMap<Fingerprint, ModelProgram>,
  resolve: (target: ArmTarget) => RoutedVersion,
): ModelProgram | { readonly missing: string } {
  try {
    const { version, fingerprint } = resolve(arm).key;
    return programs.get(fingerprint) ?? { missing: `version ${version} is being loaded` };
  } catch (error) {
    return { missing: excerpt(toWinnowError(error).message) };
  }
}
