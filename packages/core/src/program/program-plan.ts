// What the interpreter needs to know of a signature before a run: which steps read which value, and
// how many uses a value has. Computed once per signature and kept as long as the signature lives.

import { tensorWork } from "./operations/host-work.ts";
import type { SignatureProgram, Step, ValueId } from "./program.ts";
import { valuesInMask } from "./search/search-mask.ts";

/** Dependencies of one signature's steps. */
export interface ProgramPlan {
  /** Steps that read a value, each step once. */
  readonly readersOf: ReadonlyMap<ValueId, readonly number[]>;
  /** Distinct values that each step reads. */
  readonly valuesOfSteps: readonly (readonly ValueId[])[];
  /** How many distinct values each step reads. */
  readonly inputsOfSteps: Int32Array;
  /** Steps that read a value, plus one if it is an output; a value without a use is absent. */
  readonly uses: ReadonlyMap<ValueId, number>;
  /** Whether some steps run only where a predicate says so. */
  readonly hasBranches: boolean;
  /** Of each step, the work of the constants that it reads, in the unit of `tensorWork`: a table may be among them. */
  readonly constantWorkOfSteps: readonly number[];
  /** Whether no two steps that leave the interpreter can be under way at once: each waits for another. */
  readonly isChain: boolean;
}

const plans = new WeakMap<SignatureProgram, ProgramPlan>();

/** The plan of a signature. */
export function planOf(signature: SignatureProgram): ProgramPlan {
  const known = plans.get(signature);
  if (known !== undefined) return known;
  const plan = makePlan(signature);
  plans.set(signature, plan);
  return plan;
}

/** The values a step reads, in its own order; last the predicate of its branch. */
export function valuesReadBy(step: Step): readonly ValueId[] {
  const values = operandsOf(step);
  return step.when === undefined ? values : [...values, step.when.predicate];
}

function operandsOf(step: Step): readonly ValueId[] {
  switch (step.kind) {
    case "host":
      return step.inputs;
    case "lookup":
      return [step.keys];
    case "dense":
      return step.inputs.map(({ value }) => value);
    case "topK":
      return [
        step.query,
        ...(typeof step.k === "number" ? [] : [step.k.value]),
        ...(step.masks ?? []).flatMap(valuesInMask),
        ...(step.functions ?? []).flatMap(({ operand }) => operand ?? []),
      ];
    case "choice":
      return [step.predicate, ...step.branches];
  }
}

/** The values a step defines. */
export function valuesDefinedBy(step: Step): readonly ValueId[] {
  switch (step.kind) {
    case "host":
      return step.outputs;
    case "lookup":
      return [step.output];
    case "dense":
      return step.outputs.map(({ value }) => value);
    case "topK":
      return [step.scores, step.rows, step.ids].filter((value) => value !== undefined);
    case "choice":
      return [step.output];
  }
}

function makePlan(signature: SignatureProgram): ProgramPlan {
  const valuesOfSteps = signature.steps.map((step) => [...new Set(valuesReadBy(step))]);
  const readersOf = new Map<ValueId, number[]>();
  for (const [step, values] of valuesOfSteps.entries()) {
    for (const value of values) {
      const readers = readersOf.get(value);
      if (readers === undefined) readersOf.set(value, [step]);
      else readers.push(step);
    }
  }
  const uses = new Map(Array.from(readersOf, ([value, readers]) => [value, readers.length]));
  for (const value of new Set(signature.outputs.map((output) => output.value))) {
    uses.set(value, (uses.get(value) ?? 0) + 1);
  }
  const inputsOfSteps = Int32Array.from(valuesOfSteps, (values) => values.length);
  const hasBranches = signature.steps.some(({ when }) => when !== undefined);
  const isChain = formsChain(signature, valuesOfSteps);
  const constants = new Map(signature.constants.map(({ value, tensor }) => [value, tensor]));
  const constantWorkOfSteps = valuesOfSteps.map((values) =>
    tensorWork(values.flatMap((value) => constants.get(value) ?? [])),
  );
  return {
    readersOf,
    valuesOfSteps,
    inputsOfSteps,
    uses,
    hasBranches,
    constantWorkOfSteps,
    isChain,
  };
}

/** In a chain of n steps, they depend on 0, 1, 2 … n - 1 others of it. */
function formsChain(
  { steps }: SignatureProgram,
  valuesOfSteps: readonly (readonly ValueId[])[],
): boolean {
  const definedBy = new Map(
    steps.flatMap((step, index) => valuesDefinedBy(step).map((value) => [value, index] as const)),
  );
  const isRemote = steps.map(({ kind }) => kind !== "host" && kind !== "choice");
  const remoteSteps = [...steps.keys()].filter((step) => isRemote[step]);
  const depths = remoteSteps.map((remoteStep) => {
    const reached = new Set([remoteStep]);
    for (const step of reached) {
      for (const value of valuesOfSteps[step]!) {
        const definer = definedBy.get(value);
        if (definer !== undefined) reached.add(definer);
      }
    }
    return [...reached].filter((step) => isRemote[step]).length - 1;
  });
  return depths.toSorted((a, b) => a - b).every((depth, position) => depth === position);
}
