// In which vocabularies a signature looks an input up: who asks whether they have a key asks what the model itself
// will ask. Where the key is made of the input (lower case, another type), so is the one that is asked for.
//
//   user_id ─▶ StringLower ─▶ lookup of "users" ─▶ dense ─▶ topK
//              └────────── part ──────────┘

import type { HostStep, ModelProgram, SignatureProgram, Step, ValueId } from "./program.ts";

/** Where keys are looked up: in a table, or in a vocabulary that travels with the program; by position in it. */
export type KeyVocabulary =
  | { readonly kind: "table"; readonly table: number }
  | { readonly kind: "vocabulary"; readonly vocabulary: number };

/** The part of a signature that makes keys of one input. */
export interface KeyLookups {
  /** Takes the input alone, and has an output for each vocabulary: the keys that are looked up in it. */
  readonly part: SignatureProgram;
  /** By output. */
  readonly vocabularies: readonly KeyVocabulary[];
}

const known = new WeakMap<SignatureProgram, Map<string, KeyLookups>>();

/**
 * The look-ups of keys that are made of this input alone, whatever other inputs say. Rows that are hashes, or
 * numbers of rows, are no keys: no vocabulary lacks them.
 */
export function keyLookupsOf(
  { tables }: Pick<ModelProgram, "tables">,
  signature: SignatureProgram,
  input: string,
): KeyLookups {
  const ofSignature = known.get(signature) ?? new Map<string, KeyLookups>();
  known.set(signature, ofSignature);
  let found = ofSignature.get(input);
  if (found === undefined) {
    found = findLookups(tables, signature, input);
    ofSignature.set(input, found);
  }
  return found;
}

interface FoundKeys {
  readonly keys: ValueId;
  readonly vocabulary: KeyVocabulary;
}

function findLookups(
  tables: ModelProgram["tables"],
  signature: SignatureProgram,
  name: string,
): KeyLookups {
  const inputs = signature.inputs.filter((each) => each.name === name);
  const ofInput = new Set<ValueId>(inputs.map(({ value }) => value));
  const ofConstants = new Set<ValueId>(signature.constants.map(({ value }) => value));
  const isMade = (value: ValueId): boolean => ofInput.has(value) || ofConstants.has(value);
  const steps: HostStep[] = [];
  const found: FoundKeys[] = [];
  for (const step of signature.steps) {
    // A step of a branch may stay out.
    if (step.when !== undefined) continue;
    const lookup = keysOf(step, tables);
    if (lookup !== undefined) {
      if (ofInput.has(lookup.keys)) found.push(lookup);
    } else if (step.kind === "host" && step.inputs.every(isMade)) {
      const made = step.inputs.some((value) => ofInput.has(value)) ? ofInput : ofConstants;
      for (const value of step.outputs) made.add(value);
      steps.push(step);
    }
  }
  const values = found.map(({ keys }) => keys);
  const outputs = values.map((value, at) => {
    return {
      name: `keys ${at}`,
      dtype: "string",
      shape: undefined,
      graphTensor: "",
      value,
    } as const;
  });
  const part = { ...signature, inputs, outputs, steps: stepsFor(values, steps) };
  return { part, vocabularies: found.map(({ vocabulary }) => vocabulary) };
}

/** The keys that a step looks up in a vocabulary; `undefined` where it does something else. */
function keysOf(step: Step, tables: ModelProgram["tables"]): FoundKeys | undefined {
  if (step.kind === "lookup") {
    const { table, keys } = step;
    const spec = tables[table];
    const isVocabulary = spec?.kind === "keyed" && spec.keys.kind === "vocabulary";
    return isVocabulary ? { keys, vocabulary: { kind: "table", table } } : undefined;
  }
  if (step.kind !== "host" || step.op !== FIND || step.vocabulary === undefined) return undefined;
  const { vocabulary } = step;
  return { keys: step.inputs[0]!, vocabulary: { kind: "vocabulary", vocabulary } };
}

/** TensorFlow's op that finds keys in a vocabulary. */
const FIND = "LookupTableFindV2";

/** Those of the steps without which these values are not made. */
function stepsFor(values: readonly ValueId[], steps: readonly HostStep[]): readonly HostStep[] {
  const needed = new Set(values);
  const kept: HostStep[] = [];
  for (const step of steps.toReversed()) {
    if (!step.outputs.some((value) => needed.has(value))) continue;
    for (const value of step.inputs) needed.add(value);
    kept.push(step);
  }
  return kept.toReversed();
}
