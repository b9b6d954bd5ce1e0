// The OpenAPI 3.1 description of the paths of `request-path.ts`, served at `/openapi.json` and kept
// as `docs/openapi.json`, which a test compares. Written by hand: the paths hold ":predict" behind a
// parameter, which fastify's routes cannot state and its swagger plugin thus cannot derive.

import { DATATYPES } from "../predict/inference/inference-datatypes.ts";
import { CLUSTER_REPORT } from "./report-schema.ts";

const ERROR = { $ref: "#/components/schemas/Error" } as const;
const json = (schema: object): object => ({ "application/json": { schema } });
const failure = (description: string): object => ({ description, content: json(ERROR) });
const parameter = (name: string, schema: object): object => ({
  name,
  in: "path",
  required: true,
  schema,
});

const MODEL: object = parameter("model", { type: "string" });
const VERSION: object = parameter("version", { type: "integer", format: "int64" });
const LABEL: object = parameter("label", { type: "string" });
const VERSION_OR_LABEL: object = parameter("version", {
  type: "string",
  description: "A number, or a label",
});

const FAILURES = {
  "400": failure("The request is faulty: JSON, names, types, shapes, unknown signature or label"),
  "401": failure("No key or certificate that is known, where one is needed"),
  "403": failure("The key lacks the role for this"),
  "404": failure("No such model or version"),
  "413": failure("The body is too long"),
  "415": failure("The body is packed in another way than with gzip"),
  "429": failure("The answer would be too long, or this client asks too much at once"),
  "503": failure("Overloaded, or partitions are lost; Retry-After says when to come back"),
  "504": failure("No answer in time"),
};

const PREDICT = (of: string): object => ({
  operationId: `predict${of}`,
  summary: "Predict; for a retrieval model: the best candidates, scores descending",
  parameters: [
    {
      name: "X-Winnow-Allow-Partial",
      in: "header",
      description: "true: accept an answer that lacks lost partitions",
      schema: { type: "boolean", default: false },
    },
    {
      name: "X-Winnow-Timeline",
      in: "header",
      description: "true: the answer's header of this name tells the request's course",
      schema: { type: "boolean", default: false },
    },
  ],
  requestBody: {
    required: true,
    description: "JSON, whatever Content-Type says; packed if Content-Encoding contains gzip",
    content: json({ $ref: "#/components/schemas/PredictRequest" }),
  },
  responses: {
    "200": {
      description: "Predictions, laid out as the request was",
      headers: {
        "X-Request-Id": {
          description: "The request's, or one that was made; every answer has it",
          schema: { type: "string" },
        },
        "X-Winnow-Model-Version": { schema: { type: "integer" } },
        "X-Winnow-Coverage": {
          description: "Partitions answered ÷ partitions asked",
          schema: { type: "number", minimum: 0, maximum: 1 },
        },
        "X-Winnow-Pipeline-Versions": {
          description:
            "Of a pipeline or an experiment: the version of each model that it asked, `name=3, other=7`",
          schema: { type: "string" },
        },
        "X-Winnow-Degraded": {
          description: "Of a pipeline: stages that the answer lacks, and why, `seen=late`",
          schema: { type: "string" },
        },
        "X-Winnow-Timeline": {
          description:
            "Where it was asked for: a JSON list of stages and questions to workers, each with fromMs and toMs",
          schema: { type: "string" },
        },
        "X-Winnow-Unknown-Users": {
          description:
            "Of a pipeline: instances of users that its model does not know, by what they were answered, `list=2`",
          schema: { type: "string" },
        },
        "X-Winnow-Arm": {
          description:
            "Of an experiment: the arm that answered, `control`, or `control;n=2, new;n=1`",
          schema: { type: "string" },
        },
      },
      content: json({ $ref: "#/components/schemas/PredictResponse" }),
    },
    ...FAILURES,
  },
});

/** What is asked with tf.Examples. */
const EXAMPLES = (
  method: string,
  of: string,
  { summary, schema }: { readonly summary: string; readonly schema: string },
): object => ({
  operationId: `${method}${of}`,
  summary,
  requestBody: {
    required: true,
    description: "JSON, whatever Content-Type says; packed if Content-Encoding contains gzip",
    content: json({ $ref: "#/components/schemas/ExamplesRequest" }),
  },
  responses: {
    "200": {
      description: "A result for each example, in order",
      content: json({ $ref: `#/components/schemas/${schema}` }),
    },
    ...FAILURES,
  },
});
const CLASSIFY = {
  summary: "Classify tf.Examples, with a signature made for it",
  schema: "ClassifyResponse",
};
const REGRESS = {
  summary: "The value of each tf.Example, with a signature made for it",
  schema: "RegressResponse",
};

const INFERENCE_READY = { $ref: "#/components/schemas/InferenceReady" } as const;

const INFER = (of: string): object => ({
  operationId: `infer${of}`,
  summary: "Predict, by the Open Inference Protocol",
  parameters: [
    {
      name: "Inference-Header-Content-Length",
      in: "header",
      description: "Bytes of the JSON, where binary data follow it",
      schema: { type: "integer", minimum: 0 },
    },
  ],
  requestBody: {
    required: true,
    description: "JSON, and binary data behind it where the header tells its length",
    content: json({ $ref: "#/components/schemas/InferenceRequest" }),
  },
  responses: {
    "200": {
      description: "The outputs that are wanted; binary data behind the JSON, if any are",
      content: {
        ...json({ $ref: "#/components/schemas/InferenceResponse" }),
        "application/octet-stream": {},
      },
    },
    ...FAILURES,
    "501": failure("Classes or shared memory, which are not served"),
  },
});

const document = (operationId: string, summary: string, schema: string) => ({
  operationId,
  summary,
  responses: {
    "200": { description: summary, content: json({ $ref: `#/components/schemas/${schema}` }) },
    "400": FAILURES["400"],
    "401": FAILURES["401"],
    "403": FAILURES["403"],
    "404": FAILURES["404"],
  },
});
const STATUS = (of: string): object => {
  const told = document(`status${of}`, "States of the versions, descending", "ModelStatus");
  const content = json({ $ref: "#/components/schemas/ModelStatus" });
  const starting = {
    description: "The same, before the router is ready for the first time",
    content,
  };
  return { ...told, responses: { ...told.responses, "503": starting } };
};
const METADATA = (of: string): object =>
  document(`metadata${of}`, "Signatures of a version", "ModelMetadata");
const PLAIN = (operationId: string, summary: string, responses: object): object => ({
  get: { operationId, summary, responses },
});
const OK = { "200": { description: "Yes", content: { "text/plain": {} } } };

/** Every path that names a model, with its description. */
function modelPaths(): Record<string, object> {
  const places = [
    { at: "/v1/models/{model}", of: "", parameters: [MODEL] },
    {
      at: "/v1/models/{model}/versions/{version}",
      of: "OfVersion",
      parameters: [MODEL, VERSION],
    },
    { at: "/v1/models/{model}/labels/{label}", of: "OfLabel", parameters: [MODEL, LABEL] },
  ];
  const paths: Record<string, object> = {};
  for (const { at, of, parameters } of places) {
    paths[`${at}:predict`] = { parameters, post: PREDICT(of) };
    paths[`${at}:classify`] = { parameters, post: EXAMPLES("classify", of, CLASSIFY) };
    paths[`${at}:regress`] = { parameters, post: EXAMPLES("regress", of, REGRESS) };
    paths[at] = { parameters, get: STATUS(of) };
    paths[`${at}/metadata`] = { parameters, get: METADATA(of) };
  }
  return paths;
}

/** The paths of the Open Inference Protocol. */
function inferencePaths(): Record<string, object> {
  const places = [
    { at: "/v2/models/{model}", of: "", parameters: [MODEL] },
    {
      at: "/v2/models/{model}/versions/{version}",
      of: "OfVersion",
      parameters: [MODEL, VERSION_OR_LABEL],
    },
  ];
  const paths: Record<string, object> = {
    "/v2": { get: document("inferenceServer", "Name, release and extensions", "InferenceServer") },
    "/v2/health/live": { get: document("inferenceLive", "Does the server run?", "InferenceLive") },
    "/v2/health/ready": {
      get: {
        ...document("inferenceReady", "May requests be sent here?", "InferenceReady"),
        responses: {
          "200": { description: "Yes", content: json(INFERENCE_READY) },
          "503": { description: "No", content: json(INFERENCE_READY) },
        },
      },
    },
  };
  for (const { at, of, parameters } of places) {
    const ready = document(`inferenceModelReady${of}`, "Does it answer?", "InferenceModelReady");
    const model = document(`inferenceModel${of}`, "Versions, inputs, outputs", "InferenceModel");
    paths[`${at}:classify`] = { parameters, post: EXAMPLES("classify", of, CLASSIFY) };
    paths[`${at}:regress`] = { parameters, post: EXAMPLES("regress", of, REGRESS) };
    paths[at] = { parameters, get: model };
    paths[`${at}/ready`] = { parameters, get: ready };
    paths[`${at}/infer`] = { parameters, post: INFER(of) };
  }
  return paths;
}

const STATE = { enum: ["START", "LOADING", "AVAILABLE", "UNLOADING", "END"] };

const INFERENCE_TENSOR = { $ref: "#/components/schemas/InferenceTensor" } as const;

const EXAMPLE = {
  type: "object",
  description:
    "Features by name: a value or a list of values, all texts, all integers and booleans, or all other numbers",
  additionalProperties: {},
} as const;

const SCHEMAS = {
  Error: {
    type: "object",
    required: ["error"],
    properties: { error: { type: "string" } },
  },
  PredictRequest: {
    type: "object",
    description: "Exactly one of instances (rows) and inputs (columns)",
    properties: {
      signature_name: { type: "string", default: "serving_default" },
      instances: { type: "array", minItems: 1, items: {} },
      inputs: {},
      k: { type: "integer", minimum: 1, description: "Candidates wanted per instance" },
      exclude: {
        type: "array",
        description: "Item ids never to be answered: one list, or one list per instance",
        items: {},
      },
      include: {
        type: "array",
        description: "The only item ids that may be answered: one list, or one list per instance",
        items: {},
      },
      filter: {
        description:
          "Which items may be answered, by their attributes: one filter, or one per instance (docs/filters.md)",
        oneOf: [{ type: "object" }, { type: "array", items: { type: ["object", "null"] } }],
      },
      return: {
        type: "array",
        description: 'Attributes to give with each item, as "attributes" beside the outputs',
        items: { type: "string" },
      },
      return_vectors: {
        type: "boolean",
        description: 'The vector of each item, as "vectors" beside the outputs',
      },
      explain: {
        type: "boolean",
        description:
          'Of a pipeline: what each stage did, as "explain" beside the outputs (docs/pipelines.md)',
      },
    },
  },
  PredictResponse: {
    type: "object",
    description: "Numbers may be NaN, Infinity and -Infinity, as TensorFlow Serving writes them",
    properties: { predictions: { type: "array", items: {} }, outputs: {} },
  },
  ExamplesRequest: {
    type: "object",
    required: ["examples"],
    properties: {
      signature_name: { type: "string", default: "serving_default" },
      context: { ...EXAMPLE, description: "Features that all examples have in common" },
      examples: { type: "array", minItems: 1, items: EXAMPLE },
    },
  },
  ClassifyResponse: {
    type: "object",
    description: "Of each example the classes, each a label and a score",
    properties: {
      results: {
        type: "array",
        items: {
          type: "array",
          items: {
            type: "array",
            prefixItems: [{ type: "string" }, { type: "number" }],
            minItems: 2,
            maxItems: 2,
          },
        },
      },
    },
  },
  RegressResponse: {
    type: "object",
    properties: { results: { type: "array", items: { type: "number" } } },
  },
  ModelList: {
    type: "object",
    properties: {
      models: {
        type: "array",
        items: {
          type: "object",
          properties: {
            name: { type: "string" },
            versions: {
              type: "array",
              description: "Descending, without those that are over",
              items: {
                type: "object",
                properties: { version: { type: "string" }, state: STATE },
              },
            },
          },
        },
      },
    },
  },
  ModelStatus: {
    type: "object",
    properties: {
      model_version_status: {
        type: "array",
        items: {
          type: "object",
          properties: {
            version: { type: "string" },
            state: STATE,
            status: {
              type: "object",
              properties: { error_code: { type: "string" }, error_message: { type: "string" } },
            },
          },
        },
      },
    },
  },
  ClusterReport: CLUSTER_REPORT,
  InferenceServer: {
    type: "object",
    required: ["name", "version", "extensions"],
    properties: {
      name: { type: "string" },
      version: { type: "string" },
      extensions: { type: "array", items: { type: "string" } },
    },
  },
  InferenceLive: { type: "object", properties: { live: { type: "boolean" } } },
  InferenceReady: {
    type: "object",
    properties: {
      ready: { type: "boolean" },
      error: { type: "string", description: "Why it is not ready" },
    },
  },
  InferenceModelReady: {
    type: "object",
    properties: { name: { type: "string" }, ready: { type: "boolean" } },
  },
  InferenceModel: {
    type: "object",
    required: ["name", "platform"],
    properties: {
      name: { type: "string" },
      versions: { type: "array", description: "Ascending", items: { type: "string" } },
      platform: { type: "string" },
      inputs: { type: "array", items: INFERENCE_TENSOR },
      outputs: { type: "array", items: INFERENCE_TENSOR },
    },
  },
  InferenceTensor: {
    type: "object",
    required: ["name", "shape", "datatype"],
    properties: {
      name: { type: "string" },
      shape: { type: "array", items: { type: "integer" } },
      datatype: { enum: Object.values(DATATYPES) },
      parameters: { type: "object" },
      data: {
        type: "array",
        description: "Flat or nested, row by row; answers are flat",
        items: {},
      },
    },
  },
  InferenceRequest: {
    type: "object",
    required: ["inputs"],
    properties: {
      id: { type: "string", description: "Echoed" },
      parameters: {
        type: "object",
        description:
          "k, exclude, include, filter, return, return_vectors and explain of PredictRequest, lists and objects also as " +
          "strings of JSON; signature_name; binary_data_output",
      },
      inputs: { type: "array", items: INFERENCE_TENSOR },
      outputs: {
        type: "array",
        description: "Those wanted, in this order; all if none is named",
        items: {
          type: "object",
          required: ["name"],
          properties: { name: { type: "string" }, parameters: { type: "object" } },
        },
      },
    },
  },
  InferenceResponse: {
    type: "object",
    required: ["model_name", "outputs"],
    properties: {
      model_name: { type: "string" },
      model_version: { type: "string" },
      id: { type: "string" },
      outputs: { type: "array", items: INFERENCE_TENSOR },
    },
  },
  ModelMetadata: {
    type: "object",
    properties: { model_spec: { type: "object" }, metadata: { type: "object" } },
  },
};

/** The description as JSON text. */
export function openApiDocument(): string {
  const description = {
    openapi: "3.1.0",
    info: {
      title: "Winnow predict API",
      version: "1",
      description:
        "TensorFlow Serving's REST API, with k, exclude, include and filter beside the instances, and the " +
        "Open Inference Protocol",
    },
    servers: [{ url: "/", description: "The router that serves this document" }],
    paths: {
      ...modelPaths(),
      ...inferencePaths(),
      "/v1/models": { get: document("models", "All models and their versions", "ModelList") },
      "/v1/cluster": {
        get: document("cluster", "How the cluster is, as this router sees it", "ClusterReport"),
      },
      "/healthz": PLAIN("health", "Does the event loop turn?", OK),
      "/livez": PLAIN("liveness", "The same", OK),
      "/readyz": PLAIN("readiness", "May requests be sent here?", {
        ...OK,
        "503": { description: "No" },
      }),
      "/openapi.json": PLAIN("openApi", "This document", {
        "200": { description: "OpenAPI 3.1" },
      }),
      "/monitoring/prometheus/metrics": PLAIN("metrics", "Metrics, where enabled", OK),
    },
    components: { schemas: SCHEMAS },
  };
  return `${JSON.stringify(description, null, 2)}\n`;
}
