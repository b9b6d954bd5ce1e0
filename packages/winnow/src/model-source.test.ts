// Where models are, from flags and variables; locations that are no directories are refused before anything starts.

import path from "node:path";
import { describe, expect, test } from "vitest";
import { modelSource, newestVersions } from "./model-source.ts";

describe("where models are", () => {
  test("flags win over variables", () => {
    const environment = { MODEL_NAME: "movies", MODEL_BASE_PATH: "/models" };

    expect(modelSource({ models: "some" }, environment)).toEqual({
      kind: "directory",
      directory: path.resolve("some"),
    });
    expect(modelSource({ modelBasePath: "/here" }, environment)).toEqual({
      kind: "model",
      model: "movies",
      basePath: "/here",
    });
    expect(modelSource({}, environment)).toEqual({
      kind: "model",
      model: "movies",
      basePath: "/models/movies",
    });
    expect(modelSource({}, {})).toEqual({ kind: "directory", directory: "/models" });
  });

  test.each([
    ["--models", { models: "s3://bucket/models" }, {}],
    ["--model_base_path", { modelBasePath: "gs://bucket/movies" }, {}],
    ["MODEL_BASE_PATH", {}, { MODEL_BASE_PATH: "s3://bucket" }],
    ["MODEL_BASE_PATH", {}, { MODEL_BASE_PATH: "az://container", MODEL_NAME: "movies" }],
  ])("%s that is a URL is refused with what would work", (setting, options, environment) => {
    expect(() => modelSource(options, environment)).toThrow(
      new RegExp(`^${setting} is a directory, not "[a-z0-9]+://.*mount the bucket, or copy`),
    );
  });

  test("a variable that a flag overrides is not judged", () => {
    expect(modelSource({ models: "/models" }, { MODEL_BASE_PATH: "s3://bucket" })).toEqual({
      kind: "directory",
      directory: "/models",
    });
  });

  test("a URL to be inspected is refused by its name", () => {
    expect(() => newestVersions("s3://bucket/models")).toThrow('not "s3://bucket/models"');
  });
});
