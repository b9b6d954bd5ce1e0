// What a pipeline lacks before it may be asked: models that do not exist, or that do not have what its stages
// name. A pure decision, made from the programs that are passed in.

import type {
  AttributeSpec,
  DiversifyStage,
  Dtype,
  FilterStage,
  ModelProgram,
  ModelStage,
  PipelineStage,
  RetrieveStage,
  SignatureProgram,
  SignatureTensor,
  UnknownStage,
} from "@winnow/core";
import {
  WinnowError,
  asksModel,
  attributeNamed,
  bindFilter,
  excerpt,
  fallbackPipelineOf,
  itemInputsOf,
  keyLookupsOf,
  parseFilterText,
  retrievalOf,
  toWinnowError,
} from "@winnow/core";
import { attributesRanked, denseRankingsOf } from "../admission/dense-rankings.ts";
import { takesLists, takesOne } from "./member-access.ts";
import { ITEMS_LACK, searchedItems } from "./retrieval/item-search.ts";

/** The program that answers for a model now, or why there is none. */
export type MemberOf = (model: string) => ModelProgram | { readonly missing: string };

/** What is known after the stages before. */
interface Found {
  /** The pipeline's inputs, by name. */
  readonly given: ReadonlyMap<string, SignatureTensor>;
  /** Type of the retrieved ids, if there are any. */
  readonly items: Dtype | undefined;
  /** Type of the ids that the pipeline declares. */
  readonly declared: Dtype | undefined;
  /** Attributes of the items that each model retrieves; `undefined` for a model without attributes. */
  readonly described: ReadonlyMap<string, readonly AttributeSpec[] | undefined>;
  /** Retrievals whose items have no vectors, because a dense part ranks them. */
  readonly vectorless: readonly RetrieveStage[];
}

/** What the pipeline of a program lacks, as a text for people; `undefined` if it lacks nothing. */
export function lackOf(
  program: ModelProgram,
  memberOf: MemberOf,
  knowsSeenItems = true,
): string | undefined {
  const inputs = program.signatures.flatMap((signature) => signature.inputs);
  const given = new Map(inputs.map((input) => [input.name, input]));
  const declared = itemsOf(program);
  let found: Found = {
    given,
    items: undefined,
    declared,
    described: new Map(),
    vectorless: [],
  };
  const stages = program.pipeline?.stages ?? [];
  for (const [at, stage] of stages.entries()) {
    const isUnknowable = stage.kind === "seen" && !knowsSeenItems;
    const outcome = isUnknowable
      ? SEEN_LACK
      : stage.kind === "unknown"
        ? (unknownLack(stage, stages, { found, memberOf }) ?? found)
        : checkStage(stage, found, memberOf);
    if (typeof outcome === "string") return `stages[${at}].${stage.kind}: ${outcome}`;
    found = outcome;
  }
  return undefined;
}

const SEEN_LACK =
  "this router has no Redis with the seen items; start it with --seen-redis or --redis";

/** What a stage lacks, or what is known after it. */
function checkStage(stage: PipelineStage, found: Found, memberOf: MemberOf): string | Found {
  if (stage.kind === "filter") return filterLack(stage, found) ?? found;
  if (stage.kind === "diversify") return diversifyLack(stage, found) ?? found;
  if (!asksModel(stage)) return found;
  const signature = signatureFor(stage, memberOf);
  if (typeof signature === "string") return signature;
  const isAlike = stage.kind === "retrieve" && stage.like !== undefined;
  const own = isAlike ? likeLack(stage, signature, found) : inputLack(stage, signature, found);
  const lack = outputLack(stage, signature) ?? own;
  if (lack !== undefined) return lack;
  return stage.kind === "retrieve" ? behindRetrieval(stage, found, { signature, memberOf }) : found;
}

function behindRetrieval(
  stage: RetrieveStage,
  found: Found,
  { signature, memberOf }: { readonly signature: SignatureProgram; readonly memberOf: MemberOf },
): string | Found {
  const items = signature.outputs.find(({ name }) => name === stage.ids)?.dtype;
  if (found.items !== undefined && items !== found.items) {
    return `model ${excerpt(stage.model)} answers ids of ${items}, the retrieval before it of ${found.items}`;
  }
  if (found.declared !== undefined && items !== found.declared) {
    return `model ${excerpt(stage.model)} answers ids of ${items}, the pipeline says ${found.declared}; say "items: ${items}"`;
  }
  const isSearched = denseRankingsOf(signature).length === 0;
  return {
    ...found,
    items,
    described: new Map([...found.described, [stage.model, attributesOf(stage, memberOf)]]),
    vectorless: isSearched ? found.vectorless : [...found.vectorless, stage],
  };
}

/** The attributes of the items that a signature searches, or that a dense part of it ranks. */
function attributesOf(stage: ModelStage, memberOf: MemberOf): readonly AttributeSpec[] | undefined {
  const member = memberOf(stage.model);
  if ("missing" in member) return undefined;
  const signature = member.signatures.find(({ name }) => name === stage.signature);
  const search = signature?.steps.find((step) => step.kind === "topK");
  const table = search && member.tables[search.table];
  if (table !== undefined) return table.kind === "candidate" ? table.attributes : undefined;
  const [ranked] = signature === undefined ? [] : denseRankingsOf(signature);
  return ranked && attributesRanked(member, ranked.ranking);
}

/** Type of the ids that a pipeline says it answers. */
function itemsOf({ pipeline, signatures }: ModelProgram): Dtype | undefined {
  const [signature] = signatures;
  return signature?.outputs.find(({ name }) => name === pipeline?.outputs.ids)?.dtype;
}

/** What telling unknown users lacks, or answering them. */
function unknownLack(
  stage: UnknownStage,
  stages: readonly PipelineStage[],
  { found, memberOf }: { readonly found: Found; readonly memberOf: MemberOf },
): string | undefined {
  const retrieval = retrievalOf(stage, stages);
  const from = retrieval?.inputs.find((each) => each.from === stage.input);
  if (retrieval === undefined || from === undefined) throw new RangeError("no such retrieval");
  const signature = signatureFor(retrieval, memberOf);
  if (typeof signature === "string") return signature;
  const member = memberOf(retrieval.model);
  if ("missing" in member) return member.missing;
  const { vocabularies } = keyLookupsOf(member, signature, from.name);
  const named = `model ${excerpt(retrieval.model)}`;
  if (vocabularies.length === 0) {
    return `${named} looks its input "${excerpt(from.name)}" up in no vocabulary, so it has no unknown users`;
  }
  const { answer } = stage;
  if (answer.kind === "pipeline") return fallbackLack(answer.model, { found, memberOf });
  if (answer.kind !== "list") return undefined;
  return searchedItems(signature, retrieval) === undefined
    ? `${named} cannot give a list: ${ITEMS_LACK}`
    : undefined;
}

/** What the pipeline that answers unknown users lacks to answer as this one does. */
function fallbackLack(
  model: string,
  { found, memberOf }: { readonly found: Found; readonly memberOf: MemberOf },
): string | undefined {
  const member = memberOf(model);
  const named = `model ${excerpt(model)}`;
  if ("missing" in member) return `${named} cannot answer: ${member.missing}`;
  const { pipeline, signatures } = member;
  if (pipeline === undefined) return `${named} is no pipeline`;
  if (fallbackPipelineOf(pipeline) !== undefined) {
    return `${named} has its own unknown users answered by a pipeline; one after the other is enough`;
  }
  const inputs = signatures.flatMap((signature) => signature.inputs);
  const other = inputs.find((input) => !isAlike(input, found.given.get(input.name)));
  if (other !== undefined) {
    const list = isList(other) ? "lists of " : "";
    return `${named} takes an input "${excerpt(other.name)}" of ${list}${other.dtype}, which this pipeline does not have`;
  }
  const items = itemsOf(member);
  return items === found.declared
    ? undefined
    : `${named} answers ids of ${items}, not ${found.declared}`;
}

/** Whether an input has the type of another, and the shape. */
function isAlike(input: SignatureTensor, other: SignatureTensor | undefined): boolean {
  if (other?.dtype !== input.dtype) return false;
  return String(other.shape) === String(input.shape);
}

const isList = ({ shape }: SignatureTensor): boolean => shape !== undefined && shape.length > 1;

function filterLack({ filter }: FilterStage, found: Found): string | undefined {
  return attributeLack(found, (attributes) => {
    bindFilter(parseFilterText(filter), attributes);
  });
}

function diversifyLack(stage: DiversifyStage, found: Found): string | undefined {
  if (stage.by === "mmr") return vectorLack(stage.of, found);
  return attributeLack(found, (attributes) => {
    const byName = new Map(attributes.map((spec) => [spec.name, spec]));
    const { isList } = attributeNamed(stage.attribute, byName);
    if (!isList || stage.by === "at-most") return;
    const text = `Attribute "${excerpt(stage.attribute)}" is a list; items in turn need one value each`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  });
}

/** What comparing the vectors of a retrieval, or of all, lacks. */
function vectorLack(of: string | undefined, { vectorless }: Found): string | undefined {
  const stage = vectorless.find((each) => of === undefined || each.as === of);
  if (stage === undefined) return undefined;
  const text = `model ${excerpt(stage.model)} ranks its items within a dense part, so there are no vectors`;
  return `${text} to compare; items can be diversified by an attribute`;
}

/** The first fault that `check` finds in the attributes of the items of some model. */
function attributeLack(
  { described }: Found,
  check: (attributes: readonly AttributeSpec[]) => void,
): string | undefined {
  for (const [model, attributes] of described) {
    if (attributes === undefined) {
      const remedy = "an assets.extra/items.parquet or items.jsonl beside it would";
      return `model ${excerpt(model)} brings no attributes of its items; ${remedy}`;
    }
    try {
      check(attributes);
    } catch (error) {
      return `model ${excerpt(model)}: ${toWinnowError(error).message}`;
    }
  }
  return undefined;
}

/** The signature that a stage uses, or what is missing. */
function signatureFor(stage: ModelStage, memberOf: MemberOf): SignatureProgram | string {
  const member = memberOf(stage.model);
  const model = excerpt(stage.model);
  if ("missing" in member) return `model ${model} cannot answer: ${member.missing}`;
  if (member.pipeline !== undefined) {
    return `model ${model} is a pipeline; name the models that it asks`;
  }
  if (member.experiment !== undefined) {
    return `model ${model} is an experiment; name the models that it asks`;
  }
  const { signatures } = member;
  const signature = signatures.find(({ name }) => name === stage.signature);
  if (signature !== undefined) return signature;
  return `model ${model} has no signature "${excerpt(stage.signature)}", but ${namesOf(signatures)}`;
}

function outputLack(stage: ModelStage, { outputs }: SignatureProgram): string | undefined {
  const heads = stage.kind === "rank" ? (stage.heads ?? []) : [];
  const scores = [stage.scores, ...heads.map(({ output }) => output)];
  const ids = stage.kind === "retrieve" ? stage.ids : undefined;
  const wanted = ids === undefined ? scores : [...scores, ids];
  const missing = wanted.find((name) => !outputs.some((output) => output.name === name));
  const model = excerpt(stage.model);
  if (missing !== undefined) {
    // Names that the file may have left to their defaults.
    const field = missing === stage.scores ? "scores" : missing === ids ? "ids" : undefined;
    const remedy = field === undefined ? "" : `; name one as "${field}"`;
    return `model ${model} has no output "${excerpt(missing)}", but ${namesOf(outputs)}${remedy}`;
  }
  const other = outputs.find(({ name, dtype }) => scores.includes(name) && dtype !== "float32");
  if (other === undefined) return undefined;
  return `output "${excerpt(other.name)}" of model ${model} is ${other.dtype}, not float32`;
}

/** What finding items like an item lacks. */
function likeLack(
  stage: RetrieveStage,
  signature: SignatureProgram,
  { given }: Found,
): string | undefined {
  const model = excerpt(stage.model);
  if (searchedItems(signature, stage) === undefined) {
    return `model ${model} cannot find items like another: ${ITEMS_LACK}`;
  }
  const ids = signature.outputs.find(({ name }) => name === stage.ids)?.dtype;
  const other = itemInputsOf(stage).find((name) => {
    const dtype = given.get(name)?.dtype;
    return ids !== dtype && !(ids === "int32" && dtype === "int64");
  });
  if (other === undefined) return undefined;
  return `model ${model} answers ids of ${ids}, input "${excerpt(other)}" is ${given.get(other)?.dtype}`;
}

function inputLack(
  stage: ModelStage,
  { inputs }: SignatureProgram,
  found: Found,
): string | undefined {
  const model = excerpt(stage.model);
  for (const input of stage.inputs) {
    const declared = inputs.find(({ name }) => name === input.name);
    if (declared === undefined) {
      return `model ${model} has no input "${excerpt(input.name)}", but ${namesOf(inputs)}`;
    }
    const lack = fitLack(declared, input.from, found);
    if (lack !== undefined) {
      return `input "${excerpt(input.name)}" of model ${model} takes ${lack}`;
    }
  }
  const unfilled = inputs.find(({ name }) => !stage.inputs.some((input) => input.name === name));
  if (unfilled !== undefined) {
    return `model ${model} needs input "${excerpt(unfilled.name)}", which the stage does not give`;
  }
  return undefined;
}

/** What an input takes instead of what a stage gives it. */
function fitLack(
  { dtype, shape }: SignatureTensor,
  from: ModelStage["inputs"][number]["from"],
  found: Found,
): string | undefined {
  const given = givenBy(from, found);
  if (given === undefined) return undefined;
  if (given.dtype !== dtype) return `${dtype}, not ${given.dtype}`;
  const length = given.shape?.[1];
  const fits = (taken: readonly number[]): boolean =>
    length === undefined ? takesOne(taken) : takesLists(taken, length);
  if (shape === undefined || fits(shape)) return undefined;
  const told =
    length === undefined ? "one value" : `a list of ${length < 0 ? "any length" : length}`;
  return `${dtype} of shape [${shape.join(",")}], not ${told} for each row`;
}

/** Type of what a stage gives an input; `undefined` where it is not known. */
function givenBy(
  from: ModelStage["inputs"][number]["from"],
  { given, items }: Found,
): Pick<SignatureTensor, "dtype" | "shape"> | undefined {
  if (typeof from === "string") return given.get(from);
  if (from.kind === "request") return given.get(from.input);
  if (from.kind === "score") return { dtype: "float32", shape: [-1] };
  return items && { dtype: items, shape: [-1] };
}

function namesOf(named: readonly Pick<SignatureTensor, "name">[]): string {
  return excerpt(named.map(({ name }) => name).join(", "));
}
