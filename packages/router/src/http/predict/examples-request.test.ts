// How faulty classify and regress requests are refused, and what tf.Examples the others become.

import { afterEach, describe, expect, test } from "vitest";
import { messageType } from "../../grpc/fixtures/grpc-client.ts";
import { send } from "../fixtures/http-client.ts";
import { JsonReader } from "../json/json-reader.ts";
import { closeAll, errorOf, start } from "../server/fixtures/running-server.ts";
import { readExamples } from "./examples-request.ts";

afterEach(closeAll);

describe("a classify request", () => {
  test.each([
    ['{"examples": []}', "'examples' value is an empty array"],
    ['{"context": 5, "examples": [{}]}', "Example must be JSON object but got JSON Number"],
    ['{"examples": [{"a": null}]}', "Feature: a has element with unexpected JSON type: Null"],
    ['{"examples": [{"a": [[1]]}]}', "Feature: a has element with unexpected JSON type: Array"],
    [
      '{"examples": [{"a": [1, 2.5]}]}',
      "Unexpected element type in feature: a expecting type: int64",
    ],
    [
      '{"examples": [{"a": ["x", true]}]}',
      "Unexpected element type in feature: a expecting type: bytes",
    ],
    [
      '{"examples": [{"a": 9223372036854775808}]}',
      "Feature: a has uint64_t element. Only int64_t is supported.",
    ],
    ['{"examples": [{"a": {"b64": "A"}}]}', "Unable to base64 decode"],
    ['{"signature_name": "x", "examples": [{"a": 1}]}', "No signature was found with the name: x"],
    [
      '{"examples": [{"a": [1, 2], "b": ["x", {"b64": ""}], "c": 0.5}]}',
      'No classification inputs found in SignatureDef: its input is "input_1", not "inputs"',
    ],
  ])("with the body %s is refused", async (body, message) => {
    const { port, predictor } = await start();

    const path = "/v1/models/retrieval:classify";
    const received = await send(port, { method: "POST", path, body });

    expect(received.status).toBe(400);
    expect(errorOf(received.text)).toContain(message);
    expect(predictor.pins).toBe(0);
  });
});

/** The examples of a body, as protobufjs reads them. */
function examplesIn(body: string, instancesMax = 10): readonly unknown[] {
  const document = new JsonReader({ valuesMax: 1000 });
  document.parse(Buffer.from(body));
  const { inputs, instances } = readExamples(document, { instancesMax });
  const { data, shape } = inputs.get("inputs")!;
  expect(shape).toEqual([instances]);
  if (Array.isArray(data) || !("at" in data)) throw new TypeError("not strings");
  const type = messageType("tensorflow.Example");
  return Array.from({ length: instances }, (_, at) => type.deserialize(data.at(at) as Uint8Array));
}

describe("the examples of a request", () => {
  test("hold bytes, floats and integers of 64 bits", () => {
    const body = `{"examples": [
      {"a": [9223372036854775807, -9223372036854775808, true, false], "b": [0.5, 1e39, -0.0]},
      {"c": ["é", {"b64": "/wA="}], "none": []}
    ]}`;

    expect(examplesIn(body)).toMatchObject([
      {
        features: {
          feature: {
            a: { int64_list: { value: ["9223372036854775807", "-9223372036854775808", "1", "0"] } },
            b: { float_list: { value: [0.5, Infinity, -0] } },
          },
        },
      },
      {
        features: {
          feature: {
            c: {
              bytes_list: {
                value: [
                  [0xc3, 0xa9],
                  [0xff, 0],
                ].map((bytes) => Uint8Array.from(bytes)),
              },
            },
            none: {},
          },
        },
      },
    ]);
  });

  test("are as many as a request may have instances", () => {
    expect(() => examplesIn('{"examples": [{}, {}, {}]}', 2)).toThrow(/3 instances/);
  });

  test("do not repeat a long context thousands of times", () => {
    const context = `{"a": "${"x".repeat(100_000)}"}`;
    const examples = Array.from({ length: 200 }, () => "{}").join(",");
    const body = `{"context": ${context}, "examples": [${examples}]}`;

    expect(() => examplesIn(body, 4096)).toThrow(/would take 20\d{6} bytes in 200 examples/);
  });
});

test("a small body whose context makes long examples is counted as these", async () => {
  const { port, predictor } = await start({ bodyBytesInFlightMax: 2 ** 20 });
  const context = `{"a": "${"x".repeat(10_000)}"}`;
  const examples = Array.from({ length: 300 }, () => "{}").join(",");
  const body = `{"context": ${context}, "examples": [${examples}]}`;

  const received = await send(port, {
    method: "POST",
    path: "/v1/models/retrieval:classify",
    body,
  });

  expect([received.status, errorOf(received.text)]).toEqual([
    503,
    expect.stringContaining("may hold 1048576 bytes"),
  ]);
  expect(predictor.pins).toBe(0);
});
