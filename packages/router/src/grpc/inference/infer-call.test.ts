// The Open Inference Protocol over a real socket, asked by a client that has the .proto file and nothing else. What
// it answers is what `POST /v2/models/NAME/infer` answers, which is tested beside v1.

import { status } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "vitest";
import { closeAll, failureOf, metadataOf, start, type Running } from "../fixtures/grpc-client.ts";

afterEach(closeAll);

interface Contents {
  readonly fp32_contents: readonly number[];
  readonly bytes_contents: readonly Buffer[];
}

interface Inferred {
  readonly model_name: string;
  readonly model_version: string;
  readonly id: string;
  readonly outputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly string[];
    readonly contents: Contents | null;
  }[];
  readonly raw_output_contents: readonly Buffer[];
}

const USERS = ["42", "nobody"];
const SCORES = [21, Math.fround(6.1), 3, 3.5, 1, 0.5];
const TITLES = ["Brazil (1985)", "Alien (1979)", "Heat (1995)"];

const typed = (texts: readonly string[], shape: readonly number[] = [texts.length]) => ({
  name: "input_1",
  datatype: "BYTES",
  shape,
  contents: { bytes_contents: texts.map((text) => Buffer.from(text)) },
});
const REQUEST = { model_name: "retrieval", inputs: [typed(USERS)] };
const outline = (shape: readonly (number | string)[]) => ({ ...typed([]), shape, contents: null });

/** Strings as raw contents have them: each behind its length. */
function rawStrings(texts: readonly string[]): Buffer {
  const parts = texts.map((text) => {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(Buffer.byteLength(text));
    return Buffer.concat([length, Buffer.from(text)]);
  });
  return Buffer.concat(parts);
}

async function infer({ inference }: Running, request: object): Promise<Inferred> {
  return (await inference.call("ModelInfer", request)) as Inferred;
}

/** Code and text of a refusal; the server answers the next request. */
async function refusal(running: Running, request: object): Promise<readonly unknown[]> {
  const error = (await failureOf(running.inference.call("ModelInfer", request))) as {
    code: number;
    details: string;
  };
  expect((await infer(running, REQUEST)).model_name).toBe("retrieval");
  expect(running.predictor.pins).toBe(0);
  return [error.code, error.details];
}

describe("ModelInfer", () => {
  test("gives the outputs as typed contents, with model, version and id", async () => {
    const running = await start();

    const answer = await infer(running, { ...REQUEST, id: "a-1" });

    expect([answer.model_name, answer.model_version, answer.id]).toEqual(["retrieval", "1", "a-1"]);
    const [scores, titles] = answer.outputs;
    expect(scores).toMatchObject({ name: "output_1", datatype: "FP32", shape: ["2", "3"] });
    expect(scores?.contents?.fp32_contents).toEqual(SCORES);
    expect(titles).toMatchObject({ name: "output_2", datatype: "BYTES", shape: ["2", "3"] });
    expect(titles?.contents?.bytes_contents.slice(0, 3).map(String)).toEqual(TITLES);
    expect(answer.raw_output_contents).toEqual([]);
    expect(running.answered.at(-1)).toMatchObject({
      api: "ModelInfer",
      model: "retrieval",
      code: "OK",
      instances: 2,
    });
  });

  test("answers raw contents to raw contents, and either where binary_data_output says so", async () => {
    const running = await start();
    const inputs = [outline([2])];
    const raw = { model_name: "retrieval", inputs, raw_input_contents: [rawStrings(USERS)] };
    const flag = (value: boolean) => ({
      parameters: { binary_data_output: { bool_param: value } },
    });

    const answers = [
      await infer(running, raw),
      await infer(running, { ...REQUEST, ...flag(true) }),
      await infer(running, { ...raw, ...flag(false) }),
    ];

    const scores = Buffer.from(Float32Array.from(SCORES).buffer);
    for (const { outputs, raw_output_contents: contents } of answers.slice(0, 2)) {
      expect(contents[0]).toEqual(scores);
      expect(contents[1]?.subarray(0, 32)).toEqual(rawStrings(TITLES).subarray(0, 32));
      expect(outputs.map((output) => output.contents)).toEqual([null, null]);
      expect(outputs[0]?.shape).toEqual(["2", "3"]);
    }
    expect(answers[2]?.outputs[0]?.contents?.fp32_contents).toEqual(SCORES);
  });

  test("reads v1's fields as parameters, gives outputs in the order asked for, and names what it ignores", async () => {
    const running = await start();
    const request = {
      ...REQUEST,
      outputs: [{ name: "output_2" }, { name: "output_1" }],
      parameters: {
        k: { int64_param: 2 },
        exclude: { string_param: '["Brazil (1985)"]' },
        filter: { string_param: '{"year":{"$gte":1990}}' },
        explain: { bool_param: true },
        sequence_id: { int64_param: 7 },
        "Ümläut\n": { string_param: "x" },
      },
    };

    const call = running.inference.begin("ModelInfer", request);
    const { outputs } = (await call.answer) as Inferred;

    expect(outputs.map(({ name, shape }) => [name, ...shape])).toEqual([
      ["output_2", "2", "2"],
      ["output_1", "2", "2"],
    ]);
    expect(outputs[0]?.contents?.bytes_contents.map(String)).not.toContain("Brazil (1985)");
    expect(running.predictor.requests.at(-1)).toMatchObject({ k: 2, explain: true });
    expect(running.predictor.requests.at(-1)?.filter).toHaveLength(1);
    expect((await call.metadata).get("x-winnow-ignored")).toEqual(["sequence_id, ??ml??ut?"]);
  });

  test("tells what an answer lacks and which arm gave it, and hands down metadata", async () => {
    const running = await start();
    running.predictor.told = {
      arms: "control",
      degradations: [{ stage: "seen", reason: "late" }],
    };

    const call = running.inference.begin("ModelInfer", REQUEST);
    await call.answer;
    await running.inference.callWith("ModelInfer", REQUEST, metadataOf({ "x-user": "42" }));

    const metadata = await call.metadata;
    expect(metadata.get("x-winnow-arm")).toEqual(["control"]);
    expect(metadata.get("x-winnow-degraded")).toEqual(["seen=late"]);
    expect(running.predictor.requests.at(-1)?.header?.("x-user")).toBe("42");
  });

  test("a version is a number or a label", async () => {
    const running = await start();

    expect((await infer(running, { ...REQUEST, model_version: "1" })).model_version).toBe("1");
    expect((await refusal(running, { ...REQUEST, model_version: "7" }))[0]).toBe(status.NOT_FOUND);
    expect(await refusal(running, { ...REQUEST, model_version: "99999999999999999999" })).toEqual([
      status.NOT_FOUND,
      "Servable not found for request: Specific(retrieval, 99999999999999999999)",
    ]);
    expect((await infer(running, { ...REQUEST, model_version: "stable" })).model_version).toBe("1");
    expect(await refusal(running, { ...REQUEST, model_version: "canary" })).toEqual([
      status.INVALID_ARGUMENT,
      "Unrecognized servable version label: canary",
    ]);
  });

  const raw = (shape: readonly (number | string)[], ...contents: Buffer[]) => ({
    model_name: "retrieval",
    inputs: [outline(shape)],
    raw_input_contents: contents,
  });
  const long = Buffer.from([255, 255, 255, 255, 52]);
  test.each<readonly [string, object, string]>([
    [
      "fewer values than the shape holds",
      { inputs: [typed(["42"], [2])] },
      'Input "input_1" has 1 values; shape [2] needs 2',
    ],
    [
      "more values than the shape holds",
      { inputs: [typed(USERS, [1])] },
      'Input "input_1" has 2 values; shape [1] needs 1',
    ],
    ["no values", { inputs: [outline([2])] }, 'Input "input_1" has 0 values; shape [2] needs 2'],
    [
      "values of another type",
      { inputs: [{ ...outline([1]), contents: { int64_contents: [42] } }] },
      "values in int64_contents; values of BYTES stand in bytes_contents",
    ],
    [
      "another datatype",
      { inputs: [{ ...typed(USERS), datatype: "INT64" }] },
      'Input "input_1" has datatype INT64; the model wants BYTES',
    ],
    [
      "a negative size",
      { inputs: [typed(USERS, [-2])] },
      'Input "input_1" has the size -2 in its shape',
    ],
    ["a vast shape", { inputs: [typed(USERS, [2 ** 31, 2 ** 31])] }, "too large"],
    [
      "a size beyond 2^53",
      { inputs: [{ ...typed(USERS), shape: ["9223372036854775807"] }] },
      "too large",
    ],
    ["empty rows of a vast length", raw([0, 2 ** 40], Buffer.alloc(0)), "too large"],
    [
      "a shape of rank 300",
      {
        inputs: [
          typed(
            USERS,
            Array.from({ length: 300 }, () => 1),
          ),
        ],
      },
      "rank above 254",
    ],
    [
      "a shape of 3000 sizes",
      {
        inputs: [
          typed(
            USERS,
            Array.from({ length: 3000 }, () => 1),
          ),
        ],
      },
      "rank above 254",
    ],
    ["raw strings that are cut off", raw([1], long), "does not hold 1 strings"],
    ["raw strings with something behind", raw([1], rawStrings(USERS)), "does not hold 1 strings"],
    ["a shape of many raw strings", raw([1e9], long), "has 1000000000 instances"],
    [
      "raw contents for other inputs",
      raw([1], rawStrings(["42"]), long),
      "raw_input_contents has 2 elements for 1 inputs",
    ],
    [
      "contents beside raw contents",
      { inputs: [typed(["42"])], raw_input_contents: [rawStrings(["42"])] },
      "has contents beside raw_input_contents",
    ],
    [
      "an unknown input",
      { inputs: [{ ...typed(USERS), name: "x" }] },
      'The model has no input "x"; its inputs are input_1',
    ],
    ["an input twice", { inputs: [typed(USERS), typed(USERS)] }, 'Input "input_1" stands twice'],
    ["no input", { inputs: [] }, 'Input "input_1" is missing'],
    [
      "an unknown output",
      { outputs: [{ name: "y" }] },
      'The model has no output "y"; its outputs are output_1, output_2',
    ],
    ["a k that is a text", { parameters: { k: { string_param: "3" } } }, '"3"'],
    [
      "a filter that is no JSON",
      { parameters: { filter: { string_param: "{" } } },
      'Parameter "filter" is a string, but no JSON',
    ],
    [
      "a signature name that is a number",
      { parameters: { signature_name: { int64_param: 3 } } },
      'Parameter "signature_name" is 3; it must be a string',
    ],
    ["no model", { model_name: "" }, "The request names no model"],
    [
      "too many instances",
      { inputs: [typed(Array.from({ length: 5000 }, () => "42"))] },
      "5000 instances",
    ],
  ])("refuses %s", async (_, part, text) => {
    const running = await start();

    const refused = await refusal(running, { ...REQUEST, ...part });

    expect(refused).toEqual([status.INVALID_ARGUMENT, expect.stringContaining(text)]);
  });

  test("refuses models that nobody knows, and parameters that are not served", async () => {
    const running = await start();
    const parameters = { shared_memory_region: { string_param: "region" } };

    const unknown = await refusal(running, { ...REQUEST, model_name: "x" });
    const shared = await refusal(running, {
      ...REQUEST,
      inputs: [{ ...typed(USERS), parameters }],
    });

    expect(unknown[0]).toBe(status.NOT_FOUND);
    expect(shared).toEqual([
      status.UNIMPLEMENTED,
      expect.stringContaining("shared memory is not served"),
    ]);
  });

  test("refuses bytes that are no message, names without number, and answers without room", async () => {
    const running = await start({ namesMax: 8 });
    const many = Array.from({ length: 9 }, () => ({ name: "output_1" }));
    const garbage = failureOf(running.inference.send("ModelInfer", Buffer.from([0x2a, 0x7f, 1])));
    const narrow = await start({ messageBytesMax: 100 });

    expect(await garbage).toMatchObject({ code: status.INVALID_ARGUMENT });
    expect((await refusal(running, { ...REQUEST, outputs: many }))[1]).toContain("more than 8");
    for (const value of [true, false]) {
      const parameters = { binary_data_output: { bool_param: value } };
      const refused = await failureOf(
        narrow.inference.call("ModelInfer", { ...REQUEST, parameters }),
      );
      expect(refused).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    }
  });
});

describe("the server and its models", () => {
  test("say whether they are there, what they are, and what they take", async () => {
    const running = await start({}, undefined, { release: "9.8.7" });
    const { inference, predictor } = running;
    const ready = async (name: string, version = ""): Promise<object> =>
      inference.call("ModelReady", { name, version });

    expect(await inference.call("ServerLive", {})).toEqual({ live: true });
    expect(await inference.call("ServerReady", {})).toEqual({ ready: true });
    predictor.ready = false;
    expect(await inference.call("ServerReady", {})).toEqual({ ready: false });
    expect(await inference.call("ServerMetadata", {})).toEqual({
      name: "winnow",
      version: "9.8.7",
      extensions: ["binary_tensor_data"],
    });
    expect(await ready("retrieval")).toEqual({ ready: true });
    expect(await ready("retrieval", "stable")).toEqual({ ready: true });
    const others = [await ready("retrieval", "7"), await ready("retrieval", "x"), await ready("x")];
    expect(others).toEqual(others.map(() => ({ ready: false })));
    expect(await failureOf(ready(""))).toMatchObject({ code: status.INVALID_ARGUMENT });
    expect(await inference.call("ModelMetadata", { name: "retrieval" })).toEqual({
      name: "retrieval",
      versions: ["1"],
      platform: "winnow",
      inputs: [{ name: "input_1", datatype: "BYTES", shape: ["-1"] }],
      outputs: [
        { name: "output_1", datatype: "FP32", shape: ["-1", "3"] },
        { name: "output_2", datatype: "BYTES", shape: ["-1", "3"] },
      ],
    });
    expect(await failureOf(inference.call("ModelMetadata", { name: "x" }))).toMatchObject({
      code: status.NOT_FOUND,
    });
    expect(predictor.pins).toBe(0);
  });
});
