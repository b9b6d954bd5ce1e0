// What the stages of a pipeline did with one request, for people who examine its answer: a JSON object for
// each instance. Nothing is kept unless the request asks for it; its size is checked before the request runs
// (`admission/request-check.ts`).
//
//   {"stages":[{"stage":"retrieve","model":"movies","version":3,"ms":1.9,"candidates":500,
//               "ids":["Heat (1995)",…],"scores":[2.25,…]},
//              {"stage":"rank",…}]}

import type { PipelineStage } from "@winnow/core";
import { StringColumn, asksModel, stringTensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { Candidates } from "./candidates.ts";
import type { InstanceNotes, PipelineRun } from "./pipeline-run.ts";
import { degradedText } from "../predictor.ts";
import type { Degradation } from "../predictor.ts";
import type { SeenOutcome } from "./seen-items.ts";

interface StageNote {
  readonly elapsedMs: number;
  /** What to explain about an instance, in addition to its candidates. */
  readonly toldOf?: (instance: number) => object;
}

/** Collects what the stages of one request did. */
export class StageNotes {
  readonly #run: Pick<PipelineRun, "request" | "pinned">;
  /** For each stage that has ended, a text for each instance. */
  readonly #stages: string[][] = [];

  constructor(run: Pick<PipelineRun, "request" | "pinned">) {
    this.#run = run;
  }

  /** A stage has ended, or was left out, and left these candidates. */
  add(
    stage: PipelineStage,
    candidates: Candidates,
    {
      elapsedMs,
      degradation,
    }: Pick<StageNote, "elapsedMs"> & { degradation?: Degradation | undefined },
  ): void {
    const degraded = degradation && degradedText([degradation]);
    this.#add(stage, candidates, { elapsedMs, ...(degraded && { toldOf: () => ({ degraded }) }) });
  }

  #add(stage: PipelineStage, candidates: Candidates, { elapsedMs, toldOf }: StageNote): void {
    if (this.#run.request.explain !== true) return;
    const head = JSON.stringify({
      stage: stage.kind,
      ...(asksModel(stage) && {
        model: stage.model,
        version: this.#run.pinned.get(stage.model)?.version,
      }),
      ms: roundedMs(elapsedMs),
    }).slice(0, -1);
    this.#stages.push(
      candidates.lists.map(({ positions, scores }, instance) => {
        const told =
          toldOf === undefined ? "" : `,${JSON.stringify(toldOf(instance)).slice(1, -1)}`;
        const ids = positions.map((position) => idText(candidates.ids, position));
        const lists = `"ids":[${ids.join(",")}],"scores":[${scores.map(String).join(",")}]`;
        return `${head}${told},"candidates":${positions.length},${lists}}`;
      }),
    );
  }

  /** The items that users have seen were read, for all instances together. */
  addSeen({ stage, lists, degradations, elapsedMs }: SeenOutcome, candidates: Candidates): void {
    const degraded = degradedText(degradations);
    const toldOf = (instance: number): object => {
      const seen = lists[instance]!.data.length;
      return { seen, ...(degraded !== undefined && { degraded }) };
    };
    this.#add(stage, candidates, { elapsedMs, toldOf });
  }

  /** For each instance the notes of its stages, JSON objects; `undefined` where the request does not want them. */
  finish(): readonly InstanceNotes[] | undefined {
    const [first] = this.#stages;
    return first?.map((_, instance) => this.#stages.map((stage) => stage[instance]!));
  }
}

/** string `[instances]`: what an answer says about its stages. */
export function explanationOf(notes: readonly InstanceNotes[]): Tensor {
  return stringTensor(notes.map((stages) => `{"stages":[${stages.join(",")}]}`));
}

/** What an `unknown` stage says about an instance: it comes before anything is retrieved. */
export function unknownNote(told: object, elapsedMs: number): string {
  const none = { candidates: 0, ids: [], scores: [] };
  return JSON.stringify({ stage: "unknown", ms: roundedMs(elapsedMs), ...told, ...none });
}

function roundedMs(elapsedMs: number): number {
  return Math.round(elapsedMs * 1000) / 1000;
}

function idText({ data }: Tensor, position: number): string {
  return data instanceof StringColumn
    ? JSON.stringify(data.textAt(position))
    : String(data[position]);
}
