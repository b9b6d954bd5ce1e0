// What an experiment can be asked: the signatures that the models of all its arms have in common, and what is
// missing before it may be asked. Pure decisions, made from the programs that are passed in.

import type {
  ArmTarget,
  Experiment,
  ModelProgram,
  SignatureProgram,
  SignatureTensor,
  VersionKey,
} from "@winnow/core";
import { excerpt, targetText } from "@winnow/core";
import { canBeKey } from "./arm-keys.ts";

/** Whether a request read for one signature can be asked of the other, and whether both give outputs of equal names. */
export function isSameSignature(a: SignatureProgram, b: SignatureProgram): boolean {
  return a.name === b.name && areSame(a.inputs, b.inputs) && areSame(a.outputs, b.outputs);
}

function areSame(some: readonly SignatureTensor[], others: readonly SignatureTensor[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ name, dtype }) =>
      others.some((other) => name === other.name && dtype === other.dtype),
    )
  );
}

/** The signatures of the first program that all other programs also have, with the same inputs and outputs. */
export function commonSignatures(
  programs: readonly Pick<ModelProgram, "signatures">[],
): readonly SignatureProgram[] {
  const [first, ...others] = programs;
  return (first?.signatures ?? []).filter((signature) =>
    others.every(({ signatures }) => signatures.some((each) => isSameSignature(signature, each))),
  );
}

/** The program that answers for an arm now, or why there is none. */
export type ArmProgramOf = (target: ArmTarget) => ModelProgram | { readonly missing: string };

/** What the experiment of this version lacks, as a text for people; `undefined` if it lacks nothing. */
export function experimentLack(
  { arms, sticky, shadow }: Experiment,
  self: VersionKey,
  programOf: ArmProgramOf,
): string | undefined {
  const programs: ModelProgram[] = [];
  for (const [at, arm] of arms.entries()) {
    const program = armProgram(arm, self, programOf);
    const where = `arms[${at}] (${arm.name})`;
    if (typeof program === "string") return `${where}: ${program}`;
    programs.push(program);
    if (commonSignatures(programs).length > 0) continue;
    const text = `model ${excerpt(targetText(arm))} has no signature with the same inputs and outputs as`;
    return `${where}: ${text} ${at === 0 ? "itself" : "the arms before it"}`;
  }
  if (shadow !== undefined && isItself(shadow, self)) return `shadow: ${itselfText(shadow)}`;
  if (sticky?.by !== "input") return undefined;
  return keyLack(sticky.name, commonSignatures(programs));
}

/**
 * What the experiment of this version, which has answered before, lacks: with a fallback that can answer, models that
 * have gone are not missed, because the fallback takes their place.
 */
export function experimentLackLater(
  experiment: Experiment,
  self: VersionKey,
  programOf: ArmProgramOf,
): string | undefined {
  const there = experiment.arms.filter((arm) => !("missing" in programOf(arm)));
  const hasFallback = there.some(({ name }) => name === experiment.fallback);
  return experimentLack(hasFallback ? { ...experiment, arms: there } : experiment, self, programOf);
}

function armProgram(
  arm: ArmTarget,
  self: VersionKey,
  programOf: ArmProgramOf,
): ModelProgram | string {
  if (isItself(arm, self)) return itselfText(arm);
  const program = programOf(arm);
  const named = `model ${excerpt(targetText(arm))}`;
  if ("missing" in program) return `${named} cannot answer: ${program.missing}`;
  if (program.experiment === undefined) return program;
  return `${named} is an experiment; name the models that it asks`;
}

/** Whether the experiment of this version is named: it never answers, so what names it would wait or fail for ever. */
function isItself({ model, version, label }: ArmTarget, self: VersionKey): boolean {
  const isLatest = version === undefined && label === undefined;
  return model === self.model && (isLatest || version === self.version);
}

function itselfText(target: ArmTarget): string {
  return `${excerpt(targetText(target))} is the experiment itself; name another version of it`;
}

function keyLack(name: string, signatures: readonly SignatureProgram[]): string | undefined {
  const inputs = signatures.flatMap((signature) => signature.inputs);
  const input = inputs.find((each) => each.name === name);
  if (input === undefined) {
    const known = [...new Set(inputs.map((each) => each.name))].join(", ");
    return `sticky.input: the models of the arms have no input "${excerpt(name)}", but ${excerpt(known)}`;
  }
  if (canBeKey(input.dtype)) return undefined;
  return `sticky.input: "${excerpt(name)}" is ${input.dtype}; a key is a string or an integer`;
}
