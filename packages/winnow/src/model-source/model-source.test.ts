// Where models are, from flags and variables; URLs of stores that are not read are refused before anything starts.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { accessDeniedText } from "@winnow/core";
import type { ObjectUrl } from "@winnow/core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { modelSource, newestVersions, servedInstead } from "./model-source.ts";
import { newestVersionsAt } from "./object-versions.ts";

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
    expect(modelSource({ modelBasePath: "" }, {})).toEqual(modelSource({}, {}));
  });

  test("URLs of an object store stay as they are, and the model's name joins them", () => {
    expect(modelSource({ models: "s3://bucket/models" }, {})).toEqual({
      kind: "directory",
      directory: "s3://bucket/models",
    });
    expect(
      modelSource({}, { MODEL_BASE_PATH: "s3://bucket/models/", MODEL_NAME: "movies" }),
    ).toEqual({ kind: "model", model: "movies", basePath: "s3://bucket/models/movies" });
  });

  test.each([
    ["--models", { models: "hdfs://bucket/models" }, {}],
    ["--model_base_path", { modelBasePath: "abfs://bucket/movies" }, {}],
    ["MODEL_BASE_PATH", {}, { MODEL_BASE_PATH: "https://container", MODEL_NAME: "movies" }],
    ["--models, a slash short,", { models: "s3:/bucket/models" }, {}],
  ])(
    "%s of a store that is not read is refused with what would work",
    (_, options, environment) => {
      expect(() => modelSource(options, environment)).toThrow(
        /cannot be read from [a-z\d]+:\/.*mount the store, or copy/,
      );
    },
  );

  test("a name that workers could not announce is refused before anything starts", () => {
    const nameless = { modelBasePath: "/here", modelName: "my movies" };

    expect(() => modelSource(nameless, {})).toThrow(
      /"my movies" cannot be a model's name: write up to 255 letters/,
    );
    expect(() => modelSource({}, { MODEL_NAME: "a/b" })).toThrow(/MODEL_NAME/);
  });

  test("a URL without a bucket is refused", () => {
    expect(() => modelSource({ models: "s3:///models" }, {})).toThrow("names no bucket");
  });

  test("a variable that a flag overrides is not judged", () => {
    expect(modelSource({ models: "/models" }, { MODEL_BASE_PATH: "ftp://bucket" })).toEqual({
      kind: "directory",
      directory: "/models",
    });
  });
});

describe("the models below a directory", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "winnow-source-"));
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  test("are found beside links to files, to nothing and in a circle", () => {
    const directory = path.join(folder, "movies", "1");
    mkdirSync(directory, { recursive: true });
    writeFileSync(path.join(directory, "model.onnx"), "");
    symlinkSync(path.join(directory, "model.onnx"), path.join(folder, "file"));
    symlinkSync(path.join(folder, "gone"), path.join(folder, "broken"));
    symlinkSync(path.join(folder, "circle"), path.join(folder, "circle"));

    expect(newestVersions(folder)).toEqual([{ model: "movies", version: 1, directory }]);
  });

  test("have the versions that workers find, whatever their directories are named", () => {
    const names = ["6", "+07", "008", " 8", "8.5", "18446744073709551615", "1732500000000000000"];
    for (const name of names) {
      const directory = path.join(folder, "movies", name);
      mkdirSync(directory, { recursive: true });
      writeFileSync(path.join(directory, "model.onnx"), "");
    }

    const directory = path.join(folder, "movies", "008");
    expect(newestVersions(folder)).toEqual([{ model: "movies", version: 8, directory }]);
  });

  test("have the versions that workers find in an object store, too", async () => {
    const folders = new Map([
      ["s3://bucket/models", ["movies"]],
      ["s3://bucket/models/movies", ["7", "007", "18446744073709551615", "tmp"]],
    ]);
    const store = {
      folders: ({ scheme, bucket, prefix }: ObjectUrl) =>
        Promise.resolve(folders.get(`${scheme}://${bucket}/${prefix}`) ?? []),
    };

    const found = await newestVersionsAt("s3://bucket/models", { store });

    expect(found).toEqual([
      { model: "movies", version: 7, directory: "s3://bucket/models/movies/7" },
    ]);
  });

  test("are served in the newest version with a model file: one without may be a copy in progress", () => {
    const [served, copied] = ["9", "10"].map((name) => path.join(folder, "movies", name));
    for (const directory of [served!, copied!]) mkdirSync(directory, { recursive: true });
    const [newest] = newestVersions(folder);

    expect(servedInstead(newest!)).toBeUndefined();
    writeFileSync(path.join(served!, "pipeline.yaml"), "");
    expect(servedInstead(newest!)).toEqual({ model: "movies", version: 9, directory: served });
    // Workers open it, and refuse it: so its status tells what to do.
    writeFileSync(path.join(copied!, "model.keras"), "");
    expect(servedInstead(newest!)).toEqual({ model: "movies", version: 10, directory: copied });
  });

  test("are looked for in directories: a file is named beside the one that holds it", () => {
    const file = path.join(folder, "saved_model.pb");
    writeFileSync(file, "");

    expect(() => newestVersions(file)).toThrow(
      `${file} is no directory; one that may work is ${folder}`,
    );
  });

  test("of a directory that is not there are told with the flag that named it", async () => {
    const missing = path.join(folder, "missing");
    await expect(newestVersionsAt(missing, { flag: "--models" })).rejects.toThrow(
      `There is no directory ${missing} (--models)`,
    );
    expect(() => newestVersions(missing)).toThrow(/There is no directory .*missing$/u);
  });

  test("are told to be missing in words where a link leads to a file", () => {
    writeFileSync(path.join(folder, "README"), "");
    symlinkSync(path.join(folder, "README"), path.join(folder, "read-me"));

    expect(() => newestVersions(folder)).toThrow(/^There is no model in .*; models lie at/u);
  });

  test("are told to be missing with what to do about a model in another format", () => {
    writeFileSync(path.join(folder, "model.keras"), "");

    expect(() => newestVersions(folder)).toThrow(/^There is no model in .*; model\.keras is read/u);
  });

  // Root may enter every folder.
  test.skipIf(process.getuid?.() === 0)("are not told to be missing where none may enter", () => {
    const closed = path.join(folder, "closed");
    mkdirSync(path.join(closed, "movies"), { recursive: true });
    chmodSync(closed, 0);

    const denied = {
      code: "PERMISSION_DENIED",
      message: `Cannot read ${closed}: ${accessDeniedText()}`,
    };
    expect(faultOf(closed)).toMatchObject(denied);
    expect(faultOf(path.join(closed, "movies"))).toMatchObject({ code: "PERMISSION_DENIED" });
    chmodSync(closed, 0o700);
  });
});

function faultOf(directory: string): unknown {
  try {
    return newestVersions(directory);
  } catch (error) {
    return error;
  }
}
