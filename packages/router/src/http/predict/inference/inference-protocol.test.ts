// The Open Inference Protocol over a socket: the answers are those of v1, in the protocol's form.

import { StringColumn, fingerprint, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { postPredict, send } from "../../fixtures/http-client.ts";
import type { Received } from "../../fixtures/http-client.ts";
import { closeAll, errorOf, gate, start, until } from "../../server/fixtures/running-server.ts";
import { inferenceAnswer } from "./inference-response.ts";

afterEach(closeAll);

const USERS = ["42", "nobody"];
const INPUT = { name: "input_1", shape: [2], datatype: "BYTES", data: USERS };
const PATH = "/v2/models/retrieval/infer";

interface Output {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly data?: readonly unknown[];
  readonly parameters?: { readonly binary_data_size: number };
}

interface Inferred {
  readonly model_name: string;
  readonly model_version: string;
  readonly id?: string;
  readonly outputs: readonly Output[];
}

function infer(port: number, body: object, path: string = PATH): Promise<Received> {
  return send(port, { method: "POST", path, body: JSON.stringify(body) });
}

const outputsOf = ({ text }: Received): readonly Output[] => (JSON.parse(text) as Inferred).outputs;

/** What v1 answers, flat. */
async function flatOf(port: number, body: object): Promise<readonly [number[], string[]]> {
  const { text } = await postPredict(port, JSON.stringify(body));
  const { predictions } = JSON.parse(text) as {
    predictions: readonly { readonly output_1: number[]; readonly output_2: string[] }[];
  };
  return [
    predictions.flatMap((each) => each.output_1),
    predictions.flatMap((each) => each.output_2),
  ];
}

describe("POST /v2/models/NAME/infer", () => {
  test("gives v1's values as typed tensors, with model, version and id", async () => {
    const { port, answered } = await start();
    const [scores, titles] = await flatOf(port, { instances: USERS });

    const answer = await infer(port, { id: "a-1", inputs: [INPUT] });

    expect([answer.status, answer.headers["content-type"]]).toEqual([200, "application/json"]);
    expect(JSON.parse(answer.text)).toEqual({
      model_name: "retrieval",
      model_version: "1",
      id: "a-1",
      outputs: [
        { name: "output_1", shape: [2, 3], datatype: "FP32", data: scores },
        { name: "output_2", shape: [2, 3], datatype: "BYTES", data: titles },
      ],
    });
    expect(answer.headers["x-winnow-model-version"]).toBe("1");
    expect(answered.at(-1)).toMatchObject({
      api: "infer",
      model: "retrieval",
      code: "OK",
      instances: 2,
    });
    expect(Object.keys((await infer(port, { inputs: [INPUT] })).text)).not.toContain("id");
  });

  test("takes a version, values nested as the shape is, and scalars of one list", async () => {
    const { port } = await start();
    const plain = outputsOf(await infer(port, { inputs: [INPUT] }));
    const pair = [
      { name: "user_id", shape: [1], datatype: "BYTES", data: ["42"] },
      { name: "movie_title", shape: [1], datatype: "BYTES", data: ["Heat (1995)"] },
    ];

    const pinned = await infer(port, { inputs: [INPUT] }, "/v2/models/retrieval/versions/1/infer");
    const ranked = await infer(port, { inputs: pair }, "/v2/models/ranking/infer");
    const turned = await infer(port, { inputs: pair.toReversed() }, "/v2/models/ranking/infer?x=1");
    // Nested as it says: it is the model that wants another shape.
    const nested = { ...INPUT, shape: [2, 1], data: [["42"], ["nobody"]] };
    const flat = { ...INPUT, shape: [2, 1], data: ["42", "nobody"] };

    expect(outputsOf(pinned)).toEqual(plain);
    expect(outputsOf(ranked)[0]).toMatchObject({ shape: [1, 1], datatype: "FP32" });
    expect(turned.text).toBe(ranked.text);
    expect(errorOf((await infer(port, { inputs: [nested] })).text)).toBe(
      errorOf((await infer(port, { inputs: [flat] })).text),
    );
  });

  test("reads v1's fields as parameters, lists and objects also as strings of JSON", async () => {
    const { port, predictor } = await start();
    const filter = { year: { $gte: 1990 } };
    const [scores, titles] = await flatOf(port, {
      instances: USERS,
      k: 2,
      exclude: ["Heat (1995)"],
    });
    const asLists = { k: 2, exclude: ["Heat (1995)"] };
    const asTexts = { k: 2, exclude: '["Heat (1995)"]' };
    const flags = { explain: true, return_vectors: true };
    const more = { filter, include: [["a"], []], return: ["year"], ...flags };
    const texts = { filter: JSON.stringify(filter), include: '[["a"],[]]', return: '["year"]' };

    const answers = [
      outputsOf(await infer(port, { inputs: [INPUT], parameters: asLists })),
      outputsOf(await infer(port, { inputs: [INPUT], parameters: asTexts })),
    ];
    await infer(port, { inputs: [INPUT], parameters: more });
    await infer(port, { inputs: [INPUT], parameters: { ...texts, ...flags } });
    await postPredict(port, JSON.stringify({ instances: USERS, ...more }));

    expect(answers[0]!.map(({ data }) => data)).toEqual([scores, titles]);
    expect(answers[1]).toEqual(answers[0]);
    const [native, text, v1] = predictor.requests.slice(-3).map((request) => ({
      filter: request.filter,
      include: request.include,
      attributes: request.attributes,
      vectors: request.vectors,
      explain: request.explain,
    }));
    expect(native).toEqual(v1);
    expect(text).toEqual(v1);
  });

  test("gives the outputs that are asked for, in that order", async () => {
    const { port } = await start();
    const outputs = [{ name: "output_2" }, { name: "output_1" }];

    const both = outputsOf(await infer(port, { inputs: [INPUT], outputs }));
    const all = outputsOf(await infer(port, { inputs: [INPUT], outputs: [] }));

    expect(both.map(({ name }) => name)).toEqual(["output_2", "output_1"]);
    expect(all.map(({ name }) => name)).toEqual(["output_1", "output_2"]);
  });

  test("names keys and parameters that it does not know, and answers", async () => {
    const { port } = await start();

    const answer = await infer(port, { inputs: [INPUT], foo: 1, parameters: { fliter: 1, k: 2 } });

    expect([answer.status, answer.headers["x-winnow-ignored"]]).toEqual([200, "foo, fliter"]);
  });

  test("refuses where it is read what would keep the event loop busy: many outputs, long names and ids", async () => {
    const { port } = await start();
    const outputs = Array.from({ length: 300_000 }, (_, at) => ({ name: `output_${at + 3}` }));
    const long = "x".repeat(1_000_000);

    const texts = [
      await infer(port, { inputs: [INPUT], outputs }),
      await infer(port, { inputs: [INPUT], outputs: [{ name: long }] }),
      await infer(port, { inputs: [INPUT], id: long }),
      await infer(port, { inputs: [INPUT], outputs: [{ name: long.slice(0, 1000) }] }),
    ].map(({ status, text }) => [status, errorOf(text)]);

    expect(texts).toEqual([
      [400, '"outputs" names 300000 outputs; at most 1024 are allowed'],
      [400, "The name of an output has 1000000 bytes; at most 65536 are allowed"],
      [400, "The request's id has 1000000 bytes; at most 65536 are allowed"],
      [400, expect.stringMatching(/^The model has no output "x{256}…/)],
    ]);
  });

  test("reads a large body in a thread, with the same outcome and the same errors", async () => {
    const { port } = await start({}, { instancesMax: 50_000 });
    const data = Array.from({ length: 40_000 }, (_, at) => (at % 2 === 0 ? "42" : "nobody"));
    const large = { ...INPUT, shape: [40_000], data };

    const answer = await infer(port, { id: "big", parameters: { k: 1 }, inputs: [large] });
    const short = await infer(port, { inputs: [{ ...large, shape: [40_001] }] });

    const [first, second] = outputsOf(await infer(port, { parameters: { k: 1 }, inputs: [INPUT] }));
    const [scores, titles] = outputsOf(answer);
    expect(scores!.shape).toEqual([40_000, 1]);
    expect(scores!.data!.slice(-2)).toEqual(first!.data);
    expect(titles!.data!.slice(-2)).toEqual(second!.data);
    expect((JSON.parse(answer.text) as Inferred).id).toBe("big");
    expect(errorOf(short.text)).toContain("shape [40001] needs 40001 values");
  });
});

describe("binary data", () => {
  const column = (texts: readonly string[]): Buffer =>
    Buffer.concat(
      texts.flatMap((text) => {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(Buffer.byteLength(text));
        return [length, Buffer.from(text)];
      }),
    );

  function inferBinary(port: number, body: object, length?: string): Promise<Received> {
    const json = Buffer.from(JSON.stringify(body));
    return send(port, {
      method: "POST",
      path: PATH,
      headers: { "inference-header-content-length": length ?? String(json.length) },
      body: Buffer.concat([json, strings]),
    });
  }

  const strings = column(USERS);
  const sent = {
    name: "input_1",
    shape: [2],
    datatype: "BYTES",
    parameters: { binary_data_size: strings.length },
  };

  test("is read behind the JSON, and written there if it is asked for", async () => {
    const { port } = await start();
    const [scores, titles] = outputsOf(await infer(port, { inputs: [INPUT] }));

    const asJson = await inferBinary(port, { inputs: [sent] });
    const parameters = { binary_data_output: true };
    const outputs = [
      { name: "output_2" },
      { name: "output_1", parameters: { binary_data: false } },
    ];
    const all = await inferBinary(port, { inputs: [sent], parameters });
    const one = await inferBinary(port, { inputs: [sent], parameters, outputs });

    expect(outputsOf(asJson)).toEqual([scores, titles]);
    const jsonBytes = Number(all.headers["inference-header-content-length"]);
    const told = JSON.parse(all.bytes.subarray(0, jsonBytes).toString()) as Inferred;
    const floats = Buffer.from(Float32Array.from(scores!.data as number[]).buffer);
    const bytes = Buffer.concat([floats, column(titles!.data as string[])]);
    expect(all.headers["content-type"]).toBe("application/octet-stream");
    expect(told.outputs.map(({ parameters: own }) => own?.binary_data_size)).toEqual([
      floats.length,
      bytes.length - floats.length,
    ]);
    expect(told.outputs.map(({ data }) => data)).toEqual([undefined, undefined]);
    expect(all.bytes.subarray(jsonBytes)).toEqual(bytes);
    expect(one.bytes.subarray(Number(one.headers["inference-header-content-length"]))).toEqual(
      column(titles!.data as string[]),
    );
  });

  test.each([
    ["a size beyond the body", { ...sent, parameters: { binary_data_size: 99 } }, "wants 99 bytes"],
    ["bytes of no input", { ...INPUT }, "16 bytes of binary data belong to no input"],
    ["both kinds of values", { ...sent, data: USERS }, 'both "data" and "binary_data_size"'],
    ["a size that is none", { ...sent, parameters: { binary_data_size: -1 } }, "an integer from 0"],
    ["another count", { ...sent, shape: [3] }, "does not hold 3 strings"],
  ])("refuses %s", async (_, input, message) => {
    const { port } = await start();

    const answer = await inferBinary(port, { inputs: [input] });

    expect([answer.status, errorOf(answer.text)]).toEqual([400, expect.stringContaining(message)]);
  });

  test.each(["x", "-1", "99999", "99999999999999999999"])(
    "refuses a JSON of %s bytes",
    async (length) => {
      const { port } = await start();

      const answer = await inferBinary(port, { inputs: [sent] }, length);

      expect([answer.status, errorOf(answer.text)]).toEqual([
        400,
        expect.stringContaining(`Inference-Header-Content-Length is ${length}`),
      ]);
    },
  );

  test("refuses a size where no header says where binary data begin", async () => {
    const { port } = await start();

    const answer = await infer(port, { inputs: [sent] });

    expect([answer.status, errorOf(answer.text)]).toEqual([
      400,
      expect.stringContaining(
        "Inference-Header-Content-Length, which says where binary data begin",
      ),
    ]);
  });

  test("holds strings that are not UTF-8, which JSON refuses", async () => {
    const answerOf = (parts: readonly Uint8Array[], isBinary: boolean) => {
      const data = StringColumn.fromBytes(parts);
      const outputs = new Map<string, Tensor>([["id", tensor("string", [parts.length], data)]]);
      const version = { model: "m", version: 1, fingerprint: fingerprint("00") };
      const asked = { id: undefined, outputs: undefined, isBinary };
      return inferenceAnswer({ version, outputs, coverage: 1 }, asked, { answerBytesMax: 1e6 });
    };
    const halves = [Buffer.of(0xc3), Buffer.of(0xa9)];

    const binary = await answerOf([Buffer.of(0xff)], true);

    expect(binary.body.subarray(-5).toString("hex")).toBe("01000000ff");
    await expect(answerOf([Buffer.of(0xff)], false)).rejects.toThrow("not UTF-8");
    await expect(answerOf(halves, false)).rejects.toThrow("not UTF-8");
    expect((await answerOf([Buffer.from("é")], false)).body.toString()).toContain('"é"');
  });
});

describe("refusals", () => {
  test.each([
    ["no JSON", "{", "JSON Parse error"],
    ["no inputs", "{}", 'Input "input_1" is missing; the model\'s inputs are input_1'],
    ["inputs that are no list", '{"inputs": {}}', '"inputs" must be a list of objects'],
    ["an input without a name", '{"inputs": [{}]}', 'An element of "inputs" has no "name"'],
    ["an id that is no string", JSON.stringify({ id: 5, inputs: [INPUT] }), '"id" is 5'],
  ])("%s", async (_, body, message) => {
    const { port, predictor } = await start();

    const answer = await send(port, { method: "POST", path: PATH, body });

    expect([answer.status, errorOf(answer.text)]).toEqual([400, expect.stringContaining(message)]);
    expect(predictor.pins).toBe(0);
  });

  test.each([
    [{ ...INPUT, name: "user" }, 'no input "user"; its inputs are input_1'],
    [{ ...INPUT, datatype: "INT64" }, "has datatype INT64; the model wants BYTES"],
    [{ ...INPUT, datatype: undefined }, "has no datatype; the model wants BYTES"],
    [{ ...INPUT, shape: [3] }, "has data of shape [2]; shape [3] needs 3 values"],
    [
      { ...INPUT, shape: [0, 2 ** 40], data: [] },
      "has shape [0,1099511627776], which is too large",
    ],
    [{ ...INPUT, shape: [-2] }, "has shape [-2]; a shape is a list of at most 254 integers from 0"],
    [{ ...INPUT, shape: undefined }, "has no shape"],
    [{ ...INPUT, shape: [2, 1], data: [USERS] }, "has data of shape [1,2]"],
    [{ ...INPUT, data: undefined }, 'has no "data"'],
    [{ ...INPUT, data: [1, 2] }, 'Input "input_1": JSON Value: 1'],
  ])("an input %j", async (input, message) => {
    const { port } = await start();

    const answer = await infer(port, { inputs: [input] });

    expect([answer.status, errorOf(answer.text)]).toEqual([400, expect.stringContaining(message)]);
  });

  test.each([
    [{ inputs: [INPUT, INPUT] }, 400, "stands twice"],
    [{ outputs: [{ name: "zz" }] }, 400, 'no output "zz"; its outputs are output_1, output_2'],
    [{ outputs: [{ name: "output_1" }, { name: "output_1" }] }, 400, "stands twice"],
    [{ outputs: [{ name: "output_1", parameters: { classification: 2 } }] }, 501, "classification"],
    [{ inputs: [{ ...INPUT, parameters: { shared_memory_region: "r" } }] }, 501, "shared memory"],
    [{ parameters: { k: "5" } }, 400, '"k" is "5"'],
    [{ parameters: { exclude: "[" } }, 400, 'Parameter "exclude" is a string, but no JSON'],
    [{ parameters: [] }, 400, '"parameters" is []; it must be an object'],
    [{ parameters: { signature_name: "zz" } }, 400, '"zz" not found in signature def'],
  ])("a request %j", async (more, status, message) => {
    const { port } = await start();

    const answer = await infer(port, { inputs: [INPUT], ...more });

    expect([answer.status, errorOf(answer.text)]).toEqual([
      status,
      expect.stringContaining(message),
    ]);
  });

  test("have v1's limits: instances, bytes of an answer, places for requests", async () => {
    const { port, predictor } = await start(
      { inFlightMax: 1 },
      { instancesMax: 1, answerBytesMax: 300 },
    );
    const one = { ...INPUT, shape: [1], data: ["42"] };
    const { opened, open } = gate();

    const many = await infer(port, { inputs: [INPUT] });
    const long = await infer(port, { inputs: [one], id: "x".repeat(400) });
    const asBinary = { binary_data_output: true };
    const binary = await infer(port, { inputs: [one], parameters: { ...asBinary, k: 5 } });
    predictor.beforeAnswer = () => opened;
    const held = infer(port, { inputs: [one], parameters: { k: 1 } });
    await until(() => predictor.pins === 1);
    const refused = await infer(port, { inputs: [one] });
    open();
    await held;

    expect([many.status, errorOf(many.text)]).toEqual([
      400,
      expect.stringContaining("at most 1 are"),
    ]);
    expect([long.status, binary.status]).toEqual([429, 429]);
    expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "1"]);
  });
});

describe("what is told", () => {
  const get = (port: number, path: string): Promise<Received> =>
    send(port, { method: "GET", path });

  test("of the server and of a model", async () => {
    const { port, predictor } = await start({}, {}, { release: "1.2.3" });
    const server = { name: "winnow", version: "1.2.3", extensions: ["binary_tensor_data"] };

    const about = JSON.parse((await get(port, "/v2/models/retrieval")).text);

    expect(JSON.parse((await get(port, "/v2")).text)).toEqual(server);
    expect(JSON.parse((await get(port, "/v2/")).text)).toEqual(server);
    expect(about).toEqual({
      name: "retrieval",
      versions: ["1"],
      platform: "winnow",
      inputs: [{ name: "input_1", datatype: "BYTES", shape: [-1] }],
      outputs: [
        { name: "output_1", datatype: "FP32", shape: [-1, 3] },
        { name: "output_2", datatype: "BYTES", shape: [-1, 3] },
      ],
    });
    expect(predictor.pins).toBe(0);
  });

  test("of readiness: of the server, of a model, of one version", async () => {
    const { port, predictor } = await start();
    const paths = ["/v2/health/live", "/v2/health/ready", "/v2/models/retrieval/ready"];
    const statuses = async (...of: string[]) => {
      const answers = await Promise.all(of.map((path) => get(port, path)));
      return answers.map(({ status }) => status);
    };

    expect(await statuses(...paths)).toEqual([200, 200, 200]);
    expect(
      await statuses(
        "/v2/models/retrieval/versions/1/ready",
        "/v2/models/retrieval/versions/2/ready",
        "/v2/models/nobody/ready",
        "/v2/models/retrieval/versions/99999999999999999999/ready",
        "/v2/models/retrieval/versions/stable/ready",
        "/v2/models/retrieval/versions/canary/ready",
      ),
    ).toEqual([200, 404, 404, 404, 200, 400]);
    predictor.ready = false;
    expect(await statuses(...paths)).toEqual([200, 503, 200]);
    expect(predictor.pins).toBe(0);
  });

  test("of paths that are not there, and of methods that a path does not take", async () => {
    const { port } = await start();
    const wrong = await send(port, { method: "POST", path: "/v2/health/live", body: "" });

    const nowhere = await get(port, "/v2/models/retrieval/labels/stable");

    expect([wrong.status, wrong.headers.allow]).toEqual([405, "GET"]);
    expect((await get(port, PATH)).headers.allow).toBe("POST");
    expect([nowhere.status, errorOf(nowhere.text)]).toEqual([
      404,
      expect.stringContaining("No such path"),
    ]);
    expect((await get(port, "/v2x")).status).toBe(404);
  });

  test("nothing, where only TensorFlow Serving's paths are wanted", async () => {
    const { port, predictor } = await start({ ownPaths: false });

    const answers = [
      await get(port, "/v2"),
      await get(port, "/v2/health/live"),
      await infer(port, { inputs: [INPUT] }),
    ];

    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
    expect(predictor.requests).toEqual([]);
  });
});
