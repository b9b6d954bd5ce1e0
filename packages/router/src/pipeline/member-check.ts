// What a pipeline lacks before it may be asked: models that are not there, or that do not have what its
// stages name. A decision on its own: programs come in.

import type {
  Dtype,
  ModelProgram,
  ModelStage,
  SignatureProgram,
  SignatureTensor,
} from "@winnow/core";
import { asksModel, excerpt } from "@winnow/core";

/** The program that answers for a model now, or why none does. */
export type MemberOf = (model: string) => ModelProgram | { readonly missing: string };

/** What the pipeline of a program lacks, as a text for people; `undefined` for nothing. */
export function lackOf(program: ModelProgram, memberOf: MemberOf): string | undefined {
  const given = new Map(
    program.signatures.flatMap(({ inputs }) => inputs.map(({ name, dtype }) => [name, dtype])),
  );
  let items: Dtype | undefined;
  for (const [at, stage] of (program.pipeline?.stages ?? []).entries()) {
    if (!asksModel(stage)) continue;
    const found = signatureFor(stage, memberOf);
    const lack =
      typeof found === "string"
        ? found
        : (outputLack(stage, found) ?? inputLack(stage, found, { given, items }));
    if (lack !== undefined) return `stages[${at}].${stage.kind}: ${lack}`;
    if (stage.kind === "retrieve" && typeof found !== "string") {
      items = found.outputs.find(({ name }) => name === stage.ids)?.dtype;
    }
  }
  return undefined;
}

/** The signature that a stage asks, or what is missing. */
function signatureFor(stage: ModelStage, memberOf: MemberOf): SignatureProgram | string {
  const member = memberOf(stage.model);
  const model = excerpt(stage.model);
  if ("missing" in member) return `model ${model} cannot answer: ${member.missing}`;
  if (member.pipeline !== undefined) {
    return `model ${model} is a pipeline; name the models that it asks`;
  }
  const { signatures } = member;
  const signature = signatures.find(({ name }) => name === stage.signature);
  if (signature !== undefined) return signature;
  return `model ${model} has no signature "${excerpt(stage.signature)}", but ${namesOf(signatures)}`;
}

function outputLack(stage: ModelStage, { outputs }: SignatureProgram): string | undefined {
  const heads = stage.kind === "rank" ? (stage.heads ?? []) : [];
  const scores = [stage.scores, ...heads.map(({ output }) => output)];
  const wanted = stage.kind === "retrieve" ? [...scores, stage.ids] : scores;
  const missing = wanted.find((name) => !outputs.some((output) => output.name === name));
  const model = excerpt(stage.model);
  if (missing !== undefined) {
    return `model ${model} has no output "${excerpt(missing)}", but ${namesOf(outputs)}`;
  }
  const other = outputs.find(({ name, dtype }) => scores.includes(name) && dtype !== "float32");
  if (other === undefined) return undefined;
  return `output "${excerpt(other.name)}" of model ${model} is ${other.dtype}, not float32`;
}

interface GivenTypes {
  /** Of the pipeline's inputs, by name. */
  readonly given: ReadonlyMap<string, Dtype>;
  /** Of the retrieved ids. */
  readonly items: Dtype | undefined;
}

function inputLack(
  stage: ModelStage,
  { inputs }: SignatureProgram,
  types: GivenTypes,
): string | undefined {
  const model = excerpt(stage.model);
  for (const input of stage.inputs) {
    const declared = inputs.find(({ name }) => name === input.name);
    if (declared === undefined) {
      return `model ${model} has no input "${excerpt(input.name)}", but ${namesOf(inputs)}`;
    }
    const dtype = givenType(input.from, types);
    if (dtype !== undefined && dtype !== declared.dtype) {
      const text = `input "${excerpt(input.name)}" of model ${model} takes ${declared.dtype}`;
      return `${text}, not ${dtype}`;
    }
  }
  const unfilled = inputs.find(({ name }) => !stage.inputs.some((input) => input.name === name));
  if (unfilled !== undefined) {
    return `model ${model} needs input "${excerpt(unfilled.name)}", which the stage does not give`;
  }
  return undefined;
}

function givenType(
  from: ModelStage["inputs"][number]["from"],
  { given, items }: GivenTypes,
): Dtype | undefined {
  if (typeof from === "string") return given.get(from);
  if (from.kind === "request") return given.get(from.input);
  return from.kind === "item" ? items : "float32";
}

function namesOf(named: readonly Pick<SignatureTensor, "name">[]): string {
  return excerpt(named.map(({ name }) => name).join(", "));
}
