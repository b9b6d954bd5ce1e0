// A predictor that serves the two models of TensorFlow Serving's recorded cases by brute force from
// their weights, so that the HTTP side is tested over a real socket without a cluster behind it.
// Fake: it pins, answers, counts pins, and lets a test hold answers back.

import {
  StringColumn,
  WinnowError,
  fingerprint,
  stringTensor,
  tensor,
  type Dtype,
  type ModelProgram,
  type SignatureProgram,
  type Tensor,
} from "@winnow/core";
import type {
  ModelTarget,
  PinnedModel,
  PredictRequest,
  Prediction,
  Predictor,
  VersionStatus,
} from "../../predictor.ts";
import { DEFAULT_REQUEST_LIMITS, type RequestLimits } from "../../limits/request-limits.ts";

/** The weights of both models, as `fixture.json` has them. */
export interface FixtureWeights {
  readonly users: readonly string[];
  readonly user_embeddings_row0_is_oov: readonly (readonly number[])[];
  readonly titles: readonly string[];
  readonly candidates: readonly (readonly number[])[];
  readonly k: number;
  readonly ranking: {
    readonly movie_oov_row: readonly number[];
    readonly dense: readonly {
      readonly W: readonly (readonly number[])[];
      readonly b: readonly number[];
      readonly act: string;
    }[];
  };
}

/** Weights for tests that need no recorded answers: the shapes of `fixture.json`, fewer rows. */
export const SMALL_WEIGHTS: FixtureWeights = {
  users: ["1", "42"],
  user_embeddings_row0_is_oov: [
    [0.5, 0],
    [1, 0],
    [1, 2],
  ],
  titles: ["Heat (1995)", "Alien (1979)", "Speed (1994)", "Amélie (2001)", "Brazil (1985)"],
  candidates: [
    [1, 1],
    [0.1, 3],
    [2, 0],
    [-1, 0.5],
    [7, 7],
  ],
  k: 3,
  ranking: {
    movie_oov_row: [0.25, 0.25],
    dense: [{ W: [[1], [0.5], [0.25], [1]], b: [0.125], act: "linear" }],
  },
};

const AVAILABLE: VersionStatus = {
  version: 1,
  state: "AVAILABLE",
  errorCode: "OK",
  errorMessage: "",
};

const input = (name: string, value: number): SignatureProgram["inputs"][number] => ({
  name,
  graphTensor: `serving_default_${name}:0`,
  dtype: "string",
  shape: [-1],
  value,
});

const output = (
  name: string,
  spec: { position: number; dtype: Dtype; width: number },
): SignatureProgram["outputs"][number] => ({
  name,
  graphTensor: `StatefulPartitionedCall:${spec.position}`,
  dtype: spec.dtype,
  shape: [-1, spec.width],
  value: 10 + spec.position,
});

const INITIALISER: SignatureProgram = {
  name: "__saved_model_init_op",
  methodName: "",
  inputs: [],
  outputs: [
    {
      name: "__saved_model_init_op",
      graphTensor: "NoOp",
      dtype: "float32",
      shape: undefined,
      value: 0,
    },
  ],
  constants: [],
  steps: [],
};

function programOf(signature: Pick<SignatureProgram, "inputs" | "outputs">): ModelProgram {
  return {
    fingerprint: fingerprint("00"),
    tables: [],
    vocabularies: [],
    denseModels: [],
    signatures: [
      INITIALISER,
      {
        name: "serving_default",
        methodName: "tensorflow/serving/predict",
        constants: [],
        steps: [],
        ...signature,
      },
    ],
  };
}

/** The fake; see the head of this file. */
export class FixturePredictor implements Predictor {
  readonly limits: RequestLimits;
  ready = true;
  /** Pins taken and not yet released. */
  pins = 0;
  /** Requests predicted so far, in order. */
  readonly requests: PredictRequest[] = [];
  /** Awaited before each answer. */
  beforeAnswer: (request: PredictRequest) => Promise<void> = async () => undefined;
  coverage = 1;
  /** What answers have beside their outputs. */
  told: Pick<Prediction, "arms" | "degradations" | "explanation" | "unknownUsers" | "vectors"> = {};

  readonly #weights: FixtureWeights;
  readonly #programs: ReadonlyMap<string, ModelProgram>;

  constructor(weights: FixtureWeights, limits: Partial<RequestLimits> = {}) {
    this.limits = { ...DEFAULT_REQUEST_LIMITS, ...limits };
    this.#weights = weights;
    this.#programs = new Map([
      [
        "retrieval",
        programOf({
          inputs: [input("input_1", 0)],
          outputs: [
            output("output_1", { position: 0, dtype: "float32", width: weights.k }),
            output("output_2", { position: 1, dtype: "string", width: weights.k }),
          ],
        }),
      ],
      [
        "ranking",
        programOf({
          inputs: [input("movie_title", 0), input("user_id", 1)],
          outputs: [output("output_1", { position: 0, dtype: "float32", width: 1 })],
        }),
      ],
    ]);
  }

  async pin(target: ModelTarget): Promise<PinnedModel> {
    const { model, label } = target;
    const program = this.#programs.get(model);
    const isKnownLabel = label === undefined || (label === "stable" && program !== undefined);
    if (!isKnownLabel) {
      throw new WinnowError("INVALID_ARGUMENT", `Unrecognized servable version label: ${label}`);
    }
    const version = target.version ?? 1;
    if (program === undefined || version !== 1) {
      const wanted =
        target.version === undefined ? `Latest(${model})` : `Specific(${model}, ${version})`;
      throw new WinnowError("NOT_FOUND", `Servable not found for request: ${wanted}`);
    }
    this.pins++;
    return { model, version, program, release: () => void this.pins-- };
  }

  async predict(pinned: PinnedModel, request: PredictRequest): Promise<Prediction> {
    this.requests.push(request);
    await this.beforeAnswer(request);
    const { coverage } = this;
    const outputs =
      pinned.model === "retrieval" ? this.#retrieve(request) : this.#rank(request.inputs);
    const { model, version, program } = pinned;
    const answeredBy = { model, version, fingerprint: program.fingerprint };
    return { version: answeredBy, outputs, coverage, ...this.told };
  }

  status(model: string): readonly VersionStatus[] | undefined {
    if (model === "broken") {
      return [
        { version: 2, state: "LOADING", errorCode: "OK", errorMessage: "" },
        {
          version: 1,
          state: "END",
          errorCode: "NOT_FOUND",
          errorMessage: "Op type not registered",
        },
      ];
    }
    return this.#programs.has(model) ? [AVAILABLE] : undefined;
  }

  models(): readonly string[] {
    return ["broken", ...this.#programs.keys()].toSorted();
  }

  #retrieve(request: PredictRequest): Map<string, Tensor> {
    const { titles, candidates } = this.#weights;
    const users = stringsOf(request.inputs, "input_1");
    const k = Math.min(request.k ?? this.#weights.k, titles.length);
    const scores: number[] = [];
    const ids: string[] = [];
    for (const [instance, user] of users.entries()) {
      const excluded = request.exclude?.[instance] ?? request.exclude?.[0];
      const banned = new Set(excluded?.dtype === "string" ? excluded.data.toText() : []);
      const query = this.#user(user);
      const best = candidates
        .map((row, index) => ({ index, score: Math.fround(dot(query, row)) + 0 }))
        .filter(({ index }) => !banned.has(titles[index]!))
        .toSorted((one, other) => compare(one, other));
      for (const { index, score } of best.slice(0, k)) {
        scores.push(score);
        ids.push(titles[index]!);
      }
    }
    const shape = [users.length, users.length === 0 ? k : scores.length / users.length];
    return new Map<string, Tensor>([
      ["output_1", tensor("float32", shape, Float32Array.from(scores))],
      ["output_2", stringTensor(ids, shape)],
    ]);
  }

  #rank(inputs: ReadonlyMap<string, Tensor>): Map<string, Tensor> {
    const { ranking, titles, candidates } = this.#weights;
    const movies = stringsOf(inputs, "movie_title");
    const scores = stringsOf(inputs, "user_id").map((user, instance) => {
      const movie = candidates[titles.indexOf(movies[instance]!)] ?? ranking.movie_oov_row;
      return ranking.dense.reduce<readonly number[]>(applyLayer, [
        ...this.#user(user),
        ...movie,
      ])[0]!;
    });
    const data = Float32Array.from(scores);
    return new Map<string, Tensor>([["output_1", tensor("float32", [scores.length, 1], data)]]);
  }

  #user(name: string): readonly number[] {
    return this.#weights.user_embeddings_row0_is_oov[this.#weights.users.indexOf(name) + 1]!;
  }
}

function stringsOf(inputs: ReadonlyMap<string, Tensor>, name: string): string[] {
  const found = inputs.get(name);
  if (!(found?.data instanceof StringColumn)) throw new RangeError(`no strings "${name}"`);
  if (found.shape.length !== 1) {
    throw new WinnowError("INVALID_ARGUMENT", "In[0] and In[1] has different ndims: [1,1,4]");
  }
  return found.data.toText();
}

function dot(one: readonly number[], other: readonly number[]): number {
  return one.reduce((sum, value, index) => sum + value * other[index]!, 0);
}

/** Score descending, then row ascending; infinities are equal. */
function compare(
  one: { index: number; score: number },
  other: { index: number; score: number },
): number {
  if (one.score === other.score) return one.index - other.index;
  return other.score > one.score ? 1 : -1;
}

function applyLayer(
  inputs: readonly number[],
  layer: FixtureWeights["ranking"]["dense"][number],
): readonly number[] {
  return layer.b.map((bias, unit) => {
    const sum = layer.W.reduce((total, row, index) => total + inputs[index]! * row[unit]!, bias);
    const rounded = Math.fround(sum);
    return layer.act === "relu" ? Math.max(0, rounded) : rounded;
  });
}
