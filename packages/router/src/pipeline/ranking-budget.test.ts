// A ranking that misses its budget: the order before it is answered and marked, what reads the missing scores is left
// out, and the models stay pinned until the work on them has ended.

import type { PipelineStage, RankStage, Signal, SignatureTensor, Tensor } from "@winnow/core";
import {
  StringColumn,
  WinnowError,
  fingerprint,
  parseScore,
  stringTensor,
  tensor,
} from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RequestContext } from "../request-context.ts";
import type { PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import type { PipelineRun } from "./pipeline-run.ts";
import { runPipeline } from "./pipeline-execution.ts";
import { runOnMembers } from "./member-run.ts";
import { PIPELINE_BOUNDS } from "./fixtures/pipeline-bounds.ts";

const text = (name: string): SignatureTensor => {
  return { name, dtype: "string", shape: [-1], value: 0, graphTensor: "" };
};
const score: SignatureTensor = { ...text("score"), dtype: "float32" };
const member = { signature: "serving_default", scores: "s" };
const retrieve: PipelineStage = {
  kind: "retrieve",
  model: "movies",
  ...member,
  k: 9,
  inputs: [{ name: "user", from: "user" }],
  ids: "i",
  as: "prior",
};
const rankBy = (model: string, head: string, more: Partial<RankStage> = {}): RankStage => ({
  kind: "rank",
  model,
  ...member,
  inputs: [{ name: "movie", from: { kind: "item" } }],
  heads: [{ name: head, output: "s" }],
  ...more,
});
const slow = rankBy("slow", "ctr", { budgetMs: 30 });
const quick = rankBy("quick", "quality", { budgetMs: 30 });
const scoreOf = (written: string): PipelineStage => {
  const found = parseScore(written, new Set(["score", "prior", "ctr", "quality"]));
  if ("fault" in found) throw new Error(found.fault);
  return { kind: "score", expression: found.expression };
};

function modelOf(model: string, inputs: readonly SignatureTensor[]): PinnedModel {
  const none = { tables: [], vocabularies: [], denseModels: [] };
  const signature = { name: "serving_default", methodName: "", constants: [], steps: [] };
  const signatures = [{ ...signature, inputs, outputs: [text("i")] }];
  const program = { fingerprint: fingerprint("f"), ...none, signatures };
  return { model, version: 1, program, release: () => undefined };
}

/** A request of three candidates; the model `slow` answers when `answerSlow` is called. */
class Harness {
  readonly clock = new ManualClock();
  readonly context = new RequestContext(this.clock, { timeoutMs: 1000 });
  readonly asked: string[] = [];
  /** What `slow` is asked, and told to stop by. */
  slowSignal: Signal | undefined;
  held = 0;
  #answerSlow: () => void = () => undefined;

  run(...stages: readonly PipelineStage[]) {
    return runOnMembers({
      pin: () => {
        this.held += 1;
        return Promise.resolve(
          new Map(
            [
              modelOf("movies", [text("user")]),
              modelOf("slow", [text("movie"), score]),
              modelOf("quick", [text("movie"), score]),
            ].map((each) => [each.model, each]),
          ).set("movies", { ...modelOf("movies", [text("user")]), release: () => this.held-- }),
        );
      },
      isSame: () => true,
      run: (pinned, outlives) =>
        runPipeline({ ...this.#runOf([retrieve, ...stages]), pinned, outlives }),
    });
  }

  answerSlow(): void {
    this.#answerSlow();
  }

  #runOf(stages: readonly PipelineStage[]): Omit<PipelineRun, "pinned" | "outlives"> {
    return {
      pipeline: { stages, outputs: { scores: "scores", ids: "ids" } },
      request: {
        signature: modelOf("feed", [text("user")]).program.signatures[0]!,
        inputs: new Map([["user", stringTensor(["u"])]]),
        context: this.context,
        explain: true,
      },
      clock: this.clock,
      ...PIPELINE_BOUNDS,
      instancesMax: 2,
      ask: ({ model }, request) => this.#ask(model, request),
    };
  }

  async #ask(model: string, { inputs, context }: PredictRequest): Promise<Prediction> {
    this.asked.push(model);
    const version = { model, version: 1, fingerprint: fingerprint("f") };
    if (model === "movies") {
      const outputs = new Map<string, Tensor>([
        ["s", tensor("float32", [1, 3], Float32Array.of(3, 2, 1))],
        ["i", stringTensor(["a", "b", "c"], [1, 3])],
      ]);
      return { version, outputs, coverage: 1 };
    }
    if (model === "slow") {
      this.slowSignal = context.signal;
      await new Promise<void>((resolve) => {
        this.#answerSlow = resolve;
      });
    }
    const { data } = inputs.get("movie")!;
    if (!(data instanceof StringColumn)) throw new Error("no texts");
    const scores = data.toText().map((id) => id.charCodeAt(0));
    const outputs = new Map([["s", tensor("float32", [scores.length], Float32Array.from(scores))]]);
    return { version, outputs, coverage: 1 };
  }
}

/** Lets everything go on that waits for nothing; questions begin turns of their own. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 9; turn += 1)
    await new Promise((resolve) => void setImmediate(resolve));
}

function answerOf({ outputs, degradations }: Pick<Prediction, "outputs" | "degradations">) {
  const [scores, ids] = ["scores", "ids"].map((name) => outputs.get(name)!.data);
  if (!(ids instanceof StringColumn)) throw new Error("no texts");
  return { ids: ids.toText(), scores: Array.from(scores as Float32Array), degradations };
}

const late = { stage: "rank", reason: "late" } as const;
const skipped = (stage: "rank" | "score") => ({ stage, reason: "skipped" }) as const;

/** The answer where the model `slow` gives none in time. */
async function lateAnswer(...stages: readonly PipelineStage[]) {
  const harness = new Harness();
  const running = harness.run(...stages);
  await settle();
  harness.clock.advance(30);
  const answer = await running;
  harness.context.finish();
  harness.answerSlow();
  await settle();
  expect(harness.clock.pendingTimers).toBe(0);
  return { harness, ...answerOf(answer), explanation: answer.explanation };
}

describe("a ranking with a budget", () => {
  test("within it is as without one, and leaves no timer", async () => {
    const harness = new Harness();

    const answer = await harness.run(quick, { kind: "limit", count: 2 });

    harness.context.finish();
    expect(answerOf(answer)).toEqual({ ids: ["c", "b"], scores: [99, 98], degradations: [] });
    expect([harness.clock.pendingTimers, harness.held]).toEqual([0, 0]);
  });

  test("beyond it leaves the order before it, marked; no further question is asked", async () => {
    const { harness, explanation, ...answer } = await lateAnswer(slow, { kind: "limit", count: 2 });

    expect(answer).toEqual({ ids: ["a", "b"], scores: [3, 2], degradations: [late] });
    expect(harness.asked).toEqual(["movies", "slow"]);
    const { data } = explanation!;
    expect(data instanceof StringColumn && data.textAt(0)).toContain(
      '{"stage":"rank","model":"slow","version":1,"ms":30,"degraded":"rank=late","candidates":3',
    );
  });

  test("tells its work to stop, and keeps the models pinned until it has", async () => {
    const harness = new Harness();
    const running = harness.run(slow);
    await settle();
    harness.clock.advance(29);
    expect(harness.slowSignal?.aborted).toBe(false);
    harness.clock.advance(1);
    await running;
    await settle();

    const heldWhileItRuns = harness.held;
    harness.answerSlow();
    await settle();

    expect(harness.slowSignal?.aborted).toBe(true);
    expect([heldWhileItRuns, harness.held]).toEqual([1, 0]);
    expect(harness.context.signal.aborted).toBe(false);
    harness.context.finish();
  });

  test("ends with the request where that ends before, as any request", async () => {
    const harness = new Harness();
    const running = harness.run(slow).catch((error: unknown) => error);
    await settle();

    harness.context.abort(() => new WinnowError("CANCELLED", "left"));

    expect(await running).toMatchObject({ code: "CANCELLED", message: "left" });
    expect(harness.held).toBe(1);
    harness.answerSlow();
    await settle();
    expect([harness.clock.pendingTimers, harness.held]).toEqual([0, 0]);
  });

  test.each<{
    about: string;
    stages: readonly PipelineStage[];
    ids: string[];
    scores: number[];
    degradations: object[];
  }>([
    {
      about: "a score that names its head is left out",
      stages: [slow, scoreOf("ctr - prior")],
      ids: ["a", "b", "c"],
      scores: [3, 2, 1],
      degradations: [late, skipped("score")],
    },
    {
      about: "a score of the score so far is left out",
      stages: [slow, scoreOf("-score")],
      ids: ["a", "b", "c"],
      scores: [3, 2, 1],
      degradations: [late, skipped("score")],
    },
    {
      about: "a score of what is there is computed, and the score so far is known behind it",
      stages: [slow, scoreOf("-prior"), scoreOf("2 * score")],
      ids: ["c", "b", "a"],
      scores: [-2, -4, -6],
      degradations: [late],
    },
    {
      about: "a head stays missing behind a score that is computed",
      stages: [slow, scoreOf("-prior"), scoreOf("ctr")],
      ids: ["c", "b", "a"],
      scores: [-1, -2, -3],
      degradations: [late, skipped("score")],
    },
    {
      about: "another ranking goes on",
      stages: [slow, quick, scoreOf("score + quality")],
      ids: ["c", "b", "a"],
      scores: [198, 196, 194],
      degradations: [late],
    },
    {
      about: "another ranking that takes the score so far is left out",
      stages: [slow, { ...quick, inputs: [{ name: "score", from: { kind: "score" } }] }],
      ids: ["a", "b", "c"],
      scores: [3, 2, 1],
      degradations: [late, skipped("rank")],
    },
    {
      about: "the order of a ranking before it stands",
      stages: [quick, slow],
      ids: ["c", "b", "a"],
      scores: [99, 98, 97],
      degradations: [late],
    },
  ])(
    "that it misses: $about",
    async ({ stages, ids: expectedIds, scores: expectedScores, degradations: told }) => {
      const { ids, scores, degradations } = await lateAnswer(...stages);

      expect({ ids, scores, degradations }).toEqual({
        ids: expectedIds,
        scores: expectedScores,
        degradations: told,
      });
    },
  );
});
