// The examples of a request as protobuf merges them, and what no request may do with them.

import { describe, expect, test } from "vitest";
import { ProtobufReader } from "../../../protobuf/protobuf-reader.ts";
import type { ProtobufRules } from "../../../protobuf/protobuf-reader.ts";
import { ProtobufWriter } from "../../../protobuf/protobuf-writer.ts";
import { ExampleInput } from "./example-input.ts";

const RULES: ProtobufRules = {
  refuse: ({ kind }) => new RangeError(kind),
  decoder: new TextDecoder(),
  groups: "refused",
  prefixes: "short",
};

type Write = (input: ProtobufWriter) => void;

/** What an input of these messages holds, as text. */
function examplesIn(...inputs: readonly Write[]): readonly string[] {
  const input = new ExampleInput((examples) => {
    if (examples > 5) throw new RangeError("too many");
  });
  for (const write of inputs) {
    const writer = new ProtobufWriter();
    write(writer);
    input.read(new ProtobufReader(writer.finish(), RULES));
  }
  return input.column().toText();
}

const list =
  (...examples: readonly string[]): Write =>
  (input) =>
    input.message(1, (each) => examples.forEach((text) => each.text(1, text)));
const withContext =
  (context: string, ...examples: readonly string[]): Write =>
  (input) =>
    input.message(2, (each) => {
      examples.forEach((text) => each.text(1, text));
      each.text(2, context);
    });

describe("the examples of a request", () => {
  test("are those of all lists of the last kind, each behind the context", () => {
    expect(examplesIn(list("a"), list("b", "c"))).toEqual(["a", "b", "c"]);
    expect(examplesIn(list("a"), withContext("x", "b"), withContext("y", "c"))).toEqual([
      "xyb",
      "xyc",
    ]);
    expect(examplesIn(withContext("x", "b"), list("a"))).toEqual(["a"]);
    expect(examplesIn(withContext("x", "b"), (input) => input.text(9, "unknown"))).toEqual(["xb"]);
  });

  test("of which there is one stay where they are: a copy of 50 MB holds the event loop", () => {
    const writer = new ProtobufWriter();
    list("x".repeat(100))(writer);
    const bytes = writer.finish();
    const input = new ExampleInput(() => undefined);
    input.read(new ProtobufReader(bytes, RULES));

    const column = input.column();

    expect(column.bytes.buffer).toBe(bytes.buffer);
    expect(column.toText()).toEqual(["x".repeat(100)]);
  });

  test.each<[string, readonly Write[]]>([
    ["Input is empty.", [list()]],
    ["too many", [list("1", "2", "3", "4", "5", "6")]],
    ["The input comes in more than 64 parts", Array.from({ length: 65 }, () => list())],
    [
      "The context comes in more than 64 parts",
      [
        (input) =>
          input.message(2, (each) => {
            for (let part = 0; part < 65; part += 1) each.text(2, "x");
          }),
      ],
    ],
    ["bytes in 5 examples", [withContext("x".repeat(2 ** 22), "1", "2", "3", "4", "5")]],
  ])("are refused: %s", (problem, inputs) => {
    expect(() => examplesIn(...inputs)).toThrow(problem);
  });
});
