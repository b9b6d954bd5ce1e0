// Experiments that may not be asked yet, because the model of an arm is missing or does not fit. Their status
// says why, and the version before them goes on answering. An arm whose model loses its replicas later is not
// waited for: only the requests of that arm fail.

import type { ArmTarget, Fingerprint, ModelProgram } from "@winnow/core";
import { WinnowError, excerpt, toWinnowError } from "@winnow/core";
import type { RoutedVersion, RoutingTable } from "@winnow/cluster";
import type { LoadedProgram } from "../versions/loaded-program.ts";
import { experimentLack } from "./arm-signatures.ts";

/** What each experiment lacks with the models of a table, by content. Experiments that lack nothing are left out. */
export function waitingExperiments(
  table: RoutingTable,
  ready: readonly (readonly [Fingerprint, Pick<LoadedProgram, "program">])[],
  resolve: (target: ArmTarget) => RoutedVersion,
): ReadonlyMap<Fingerprint, WinnowError> {
  const programs = new Map(ready.map(([print, { program }]) => [print, program]));
  const waiting = new Map<Fingerprint, WinnowError>();
  for (const { contents } of table.models.values()) {
    for (const { key } of contents) {
      const { experiment } = programs.get(key.fingerprint) ?? {};
      if (experiment === undefined) continue;
      const lack = experimentLack(experiment, key, (arm) => programOf(arm, programs, resolve));
      if (lack === undefined) continue;
      const text = `The experiment waits: ${lack}`;
      waiting.set(key.fingerprint, new WinnowError("UNAVAILABLE", text));
    }
  }
  return waiting;
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
