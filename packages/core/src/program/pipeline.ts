// A pipeline: the stages of recommending, over other models, as one model. It has no tables and no
// steps of its own: the router asks the models that the stages name.
//
//   inputs ─▶ retrieve ─▶ candidates (id, score) ─▶ rank ─▶ … ─▶ limit ─▶ scores, ids

import type { HeaderReader } from "./header-reader.ts";
import { count, listOf, oneOf, optional, read, refuse, text } from "./header-reader.ts";

/** Stages of one pipeline. */
export const PIPELINE_STAGES_MAX = 16;
/** Candidates of one instance: as many as a request may ask of a model where nothing is set (`kMax`). */
export const PIPELINE_CANDIDATES_MAX = 4096;

/** A pipeline; its first stage retrieves, and no other does. */
export interface Pipeline {
  readonly stages: readonly PipelineStage[];
  /** Names of the outputs. */
  readonly outputs: { readonly scores: string; readonly ids: string };
}

/** One stage. */
export type PipelineStage = RetrieveStage | RankStage | LimitStage;

/** A signature of another model; whichever version is served when the request comes. */
export interface PipelineMember {
  readonly model: string;
  readonly signature: string;
}

/** The best `k` items of a retrieval model. */
export interface RetrieveStage extends PipelineMember {
  readonly kind: "retrieve";
  readonly k: number;
  /** Inputs of the model, each from an input of the pipeline. */
  readonly inputs: readonly { readonly name: string; readonly from: string }[];
  readonly scores: string;
  readonly ids: string;
}

/** Where an input of a ranking model comes from. */
export type RankSource =
  | { readonly kind: "request"; readonly input: string }
  | { readonly kind: "item" }
  | { readonly kind: "score" };

/** Orders candidates by the score that a ranking model gives each; equal scores keep their order. */
export interface RankStage extends PipelineMember {
  readonly kind: "rank";
  readonly inputs: readonly { readonly name: string; readonly from: RankSource }[];
  /** The output that is the score: one number for each candidate. */
  readonly scores: string;
}

/** Keeps the first `count` candidates. */
export interface LimitStage {
  readonly kind: "limit";
  readonly count: number;
}

/** Names of the models that a pipeline asks, each once, ascending. */
export function modelsOf({ stages }: Pipeline): readonly string[] {
  const names = stages.flatMap((stage) => (stage.kind === "limit" ? [] : [stage.model]));
  return [...new Set(names)].toSorted();
}

/** Reads a pipeline of an encoded program. */
const pipelineReader: HeaderReader<Pipeline> = (from) => {
  const stages = read(from, "stages", listOf(stageReader));
  const isOrdered = stages.every(({ kind }, at) => (kind === "retrieve") === (at === 0));
  if (stages.length === 0 || stages.length > PIPELINE_STAGES_MAX || !isOrdered) {
    throw refuse(from, `1 to ${PIPELINE_STAGES_MAX} stages, of which the first alone retrieves`);
  }
  const outputs = read(from, "outputs", (names) => ({
    scores: read(names, "scores", text),
    ids: read(names, "ids", text),
  }));
  return { stages, outputs };
};

const candidates: HeaderReader<number> = (from) => {
  const value = count(from);
  if (value >= 1 && value <= PIPELINE_CANDIDATES_MAX) return value;
  throw refuse(from, `from 1 to ${PIPELINE_CANDIDATES_MAX}`);
};

const stageReader: HeaderReader<PipelineStage> = (from) => {
  const kind = read(from, "kind", oneOf("retrieve", "rank", "limit"));
  if (kind === "limit") return { kind, count: read(from, "count", candidates) };
  const member = { model: read(from, "model", text), signature: read(from, "signature", text) };
  const scores = read(from, "scores", text);
  if (kind === "rank") {
    const inputs = read(from, "inputs", listOf(rankInput));
    return { kind, ...member, inputs, scores };
  }
  const inputs = read(
    from,
    "inputs",
    listOf((input) => ({ name: read(input, "name", text), from: read(input, "from", text) })),
  );
  const k = read(from, "k", candidates);
  return { kind, ...member, k, inputs, scores, ids: read(from, "ids", text) };
};

const rankInput: HeaderReader<RankStage["inputs"][number]> = (input) => ({
  name: read(input, "name", text),
  from: read(input, "from", (source): RankSource => {
    const kind = read(source, "kind", oneOf("request", "item", "score"));
    return kind === "request" ? { kind, input: read(source, "input", text) } : { kind };
  }),
});

/** A pipeline that may be missing. */
export const optionalPipeline: HeaderReader<Pipeline | undefined> = optional(pipelineReader);
