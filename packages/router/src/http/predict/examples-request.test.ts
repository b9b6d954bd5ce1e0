// How faulty classify and regress requests are refused, and sound ones too.

import { afterEach, describe, expect, test } from "vitest";
import { send } from "../fixtures/http-client.ts";
import { closeAll, errorOf, start } from "../server/fixtures/running-server.ts";

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
      "Expected classification signature method_name to be tensorflow/serving/classify. " +
        "Was: tensorflow/serving/predict",
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
