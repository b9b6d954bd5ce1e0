// TensorFlow Serving's model configuration files: what they mean and how faulty ones are refused.

import { describe, expect, test } from "vitest";
import { readModelConfig } from "./model-config.ts";
import { readMonitoringConfig } from "./monitoring-config.ts";

const read = (text: string) => readModelConfig(text, "models.config");
const one = (fields: string) =>
  `model_config_list { config { name: "m" base_path: "/models/m" ${fields} } }`;

describe("readModelConfig()", () => {
  test("reads models, policies and labels", () => {
    const { models, idle } = read(`
      # as TensorFlow Serving's guide writes it
      model_config_list: {
        config: {
          name: "movies",
          base_path: "/models/movies",
          model_platform: "tensorflow",
          model_version_policy: { specific: { versions: 42, versions: 43 } }
          version_labels { key: 'stable' value: 42 }
          version_labels { key: 'canary' value: 43 }
        }
        config < name: "users" base_path: "/m/users"
                 model_version_policy { latest { num_versions: 2 } } >
        config { name: "rating" base_path: "/m/rating" model_version_policy { all {} } }
        config { name: "plain" base_path: "/m/plain" model_type: TENSORFLOW }
      }`);

    expect(idle).toEqual([]);
    expect(models).toEqual([
      {
        model: "movies",
        basePath: "/models/movies",
        policy: { kind: "specific", versions: [42, 43] },
        labels: new Map([
          ["stable", 42],
          ["canary", 43],
        ]),
      },
      {
        model: "users",
        basePath: "/m/users",
        policy: { kind: "latest", count: 2 },
        labels: new Map(),
      },
      { model: "rating", basePath: "/m/rating", policy: { kind: "all" }, labels: new Map() },
      {
        model: "plain",
        basePath: "/m/plain",
        policy: { kind: "latest", count: 1 },
        labels: new Map(),
      },
    ]);
  });

  test("an empty list is a list: nothing is served", () => {
    expect(read("model_config_list {}").models).toEqual([]);
  });

  test("request logging is read past and named, so that it can be warned of", () => {
    const { idle } = read(one("logging_config { log_collector_config { type: 'x' } }"));

    expect(idle).toEqual(["logging_config"]);
  });

  test.each([
    ["", "models.config:1:1: expected model_config_list { config { … } }"],
    [
      "custom_model_config { }",
      "models.config:1:1: custom_model_config needs code of its own; list the models in",
    ],
    [
      "model_config_list {} custom_model_config {}",
      'either "model_config_list" or "custom_model_config", not both',
    ],
    [
      'model_config_list { config { base_pth: "/m" } }',
      'models.config:1:30: ModelConfig has no field "base_pth"; did you mean "base_path"?',
    ],
    [
      "model_config_list { config { zebra_crossing_of_things: 1 } }",
      'ModelConfig has no field "zebra_crossing_of_things"; it has name, base_path,',
    ],
    ["model_config_list { config { } }", "models.config:1:21: a model needs a name"],
    [
      'model_config_list { config { name: "my movies" base_path: "/m" } }',
      `"my movies" cannot be a model's name`,
    ],
    [one('name: "n"'), '"name" of ModelConfig is given twice'],
    [
      'model_config_list { config { name: "m" base_path: "models" } }',
      'models.config:1:40: model "m" needs an absolute base_path, not "models"',
    ],
    ['model_config_list { config { name: "m" base_path: "hdfs://b/m" } }', "mount the store"],
    [one('model_platform: "pytorch"'), 'the only platform here is "tensorflow"'],
    [one("model_type: OTHER"), 'the only platform here is "tensorflow"'],
    [one("model_type: TENSORFLOW_2"), "is one of MODEL_TYPE_UNSPECIFIED, TENSORFLOW, OTHER"],
    [one("model_version_policy { latest {} all {} }"), 'either "latest" or "all", not both'],
    [one("model_version_policy { specific {} }"), "specific { } names no version"],
    [one("model_version_policy { specific { versions: -1 } }"), "a whole number from 0"],
    [one("model_version_policy { latest { num_versions: '2' } }"), 'not "2"'],
    [one("model_version_policy: 1"), '"model_version_policy" is a message in { }, not "1"'],
    [one('version_labels { key: "a" }'), "a label is written version_labels {"],
    [
      one('version_labels { key: "a" value: 1 } version_labels { key: "a" value: 2 }'),
      'label "a" of model "m" is given twice',
    ],
    [
      'model_config_list { config { name: "m" base_path: "/a" }\nconfig { name: "m" base_path: "/b" } }',
      'models.config:2:10: model "m" is listed twice',
    ],
  ])("refuses %j", (text, message) => {
    expect(() => read(text)).toThrow(message);
  });
});

describe("readMonitoringConfig()", () => {
  test.each([
    ['prometheus_config { enable: true, path: "/metrics" }', "/metrics"],
    ["prometheus_config: { enable: true }", "/monitoring/prometheus/metrics"],
    ['prometheus_config { enable: false path: "/metrics" }', undefined],
    ["", undefined],
  ])("%j shows metrics at %s", (text, metricsPath) => {
    expect(readMonitoringConfig(text, "f")).toEqual({ metricsPath });
  });

  test("refuses a path that no URL has", () => {
    const text = 'prometheus_config { enable: true path: "metrics" }';

    expect(() => readMonitoringConfig(text, "f")).toThrow("f:1:34: path is a URL's path");
  });

  test.each([
    "/",
    "/healthz",
    "/readyz",
    "/v1/models",
    "/V1/metrics",
    "/v2",
    "/console/",
    "/openapi.json",
  ])("refuses %s, where something else is answered", (path) => {
    const text = `prometheus_config { enable: true path: "${path}" }`;

    expect(() => readMonitoringConfig(text, "f")).toThrow(
      `f:1:34: path "${path}" is answered with something else`,
    );
  });

  test.each(["/metrics?x", "/metrics#x"])("refuses %s, which no request would match", (path) => {
    const text = `prometheus_config { enable: true path: "${path}" }`;

    expect(() => readMonitoringConfig(text, "f")).toThrow("path is a URL's path");
  });

  test.each(["/metrics", "/v1metrics", "/consoles", "/healthz/metrics"])("takes %s", (path) => {
    const text = `prometheus_config { enable: true path: "${path}" }`;

    expect(readMonitoringConfig(text, "f")).toEqual({ metricsPath: path });
  });
});
