// What the playground sends and shows.

import { describe, expect, test } from "vitest";
import {
  answerTables,
  buildRequest,
  curlText,
  exampleInstances,
  pythonText,
  signaturesOf,
} from "./predict-request.ts";
import { readJson } from "./router-client.ts";

const wanted = {
  model: "movies",
  version: "",
  signature: "serving_default",
  instances: '["42"]',
  k: "",
  exclude: "",
  filter: "",
};

describe("an answer's JSON", () => {
  test("keeps what a number cannot hold as it was written", () => {
    const text = String.raw`{"ids":[9007199254740993,-9007199254740993,9007199254740991],"scores":[NaN,-Infinity,1e3,0.1234567890123456],"texts":["NaN \" 9007199254740993"]}`;

    expect(readJson(text)).toEqual({
      ids: ["9007199254740993", "-9007199254740993", 9007199254740991],
      scores: ["NaN", "-Infinity", 1000, 0.1234567890123456],
      texts: ['NaN " 9007199254740993'],
    });
  });
});

describe("a request", () => {
  test("holds what was filled in, and nothing else", () => {
    const all = { version: "7", signature: "other", k: "3", exclude: '["7"]', filter: '{"a": 1}' };

    expect(buildRequest(wanted)).toEqual({
      kind: "request",
      path: "/v1/models/movies:predict",
      body: '{"instances":["42"]}',
    });
    expect(buildRequest({ ...wanted, ...all, model: "a/b" })).toEqual({
      kind: "request",
      path: "/v1/models/a%2Fb/versions/7:predict",
      body: '{"signature_name":"other","instances":["42"],"k":3,"exclude":["7"],"filter":{"a": 1}}',
    });
  });

  test("holds integers of 64 bits as they were filled in", () => {
    const ids = "[9007199254740993]";

    expect(buildRequest({ ...wanted, instances: ` ${ids}\n`, exclude: ids })).toMatchObject({
      body: `{"instances":${ids},"exclude":${ids}}`,
    });
  });

  test.each([
    ["instances", "[42"],
    ["k", "0"],
    ["k", "3.5"],
    ["exclude", "[7"],
    ["filter", "{"],
  ] as const)("with %s %s names the field", (field, value) => {
    expect(buildRequest({ ...wanted, [field]: value })).toMatchObject({ kind: "wrong", field });
  });

  test("as text for a shell and for Python quotes what it holds, and names no key", () => {
    const request = { path: "/v1/models/m:predict", body: `{"instances":["it's \\"$HOME\\""]}` };
    const place = { origin: "http://127.0.0.1:8501", hasKey: true };

    expect(curlText(request, place)).toBe(
      `curl -H "Authorization: Bearer $WINNOW_API_KEY" -d '{"instances":["it'\\''s \\"$HOME\\""]}' 'http://127.0.0.1:8501/v1/models/m:predict'`,
    );
    expect(pythonText(request, place)).toContain(`json.loads(${JSON.stringify(request.body)})`);
    expect(pythonText(request, place)).toContain("os.environ['WINNOW_API_KEY']");
    expect(curlText(request, { ...place, hasKey: false })).not.toContain("Bearer");
  });
});

describe("metadata", () => {
  const input = (dtype: string, rank: number) => ({
    dtype,
    tensor_shape: { dim: Array.from({ length: rank }, () => ({ size: "-1" })) },
  });
  const told = (signatures: object): unknown => ({
    metadata: { signature_def: { signature_def: signatures } },
  });

  test("gives the signatures that have inputs, and an example of each", () => {
    const signatures = signaturesOf(
      told({
        __saved_model_init_op: { inputs: {} },
        one: { inputs: { user: input("DT_STRING", 1) } },
        two: { inputs: { age: input("DT_FLOAT", 2), id: input("DT_INT64", 1) } },
      }),
    );

    expect(signatures.map(({ name }) => name)).toEqual(["one", "two"]);
    expect(signatures.map(exampleInstances)).toEqual(['["42"]', '[{"age":[0.5],"id":42}]']);
  });

  test.each([undefined, null, 7, {}, told({}), { metadata: { signature_def: 1 } }])(
    "that is not as expected (%#) gives none",
    (metadata) => {
      expect(signaturesOf(metadata)).toEqual([]);
    },
  );
});

describe("an answer", () => {
  test("is a table for each instance, lists side by side", () => {
    const predictions = [{ scores: [1.5, 1], ids: ["a", "b"] }, [0.25], "x"];

    expect(answerTables({ predictions })).toEqual([
      {
        head: ["#", "scores", "ids"],
        rows: [
          ["1", "1.5", "a"],
          ["2", "1", "b"],
        ],
      },
      { head: ["#", "value"], rows: [["1", "0.25"]] },
      { head: ["#", "value"], rows: [["1", "x"]] },
    ]);
  });

  test("of thousands of rows and instances is cut; one without predictions is no table", () => {
    const long = Array.from({ length: 5000 }, (_, at) => at);
    const tables = answerTables({ predictions: Array.from({ length: 100 }, () => long) })!;

    expect(tables).toHaveLength(20);
    expect(tables[0]!.rows).toHaveLength(200);
    expect(answerTables({ outputs: [1] })).toBeUndefined();
  });
});

test("a cell of an answer is cut where nobody would read on", () => {
  const [shown] = answerTables({ predictions: [[Array.from({ length: 5000 }, () => 0.5), "é"]] })!;

  expect(shown!.rows.map((cells) => cells[1]!.length)).toEqual([1001, 1]);
});
