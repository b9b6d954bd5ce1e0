// Which searches of ScaNN become exact ones. Their answers are recorded: test/data/savedmodels/scann.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { Attributes } from "../definition/attributes.ts";
import { constantValue, integerOf } from "../graph-value.ts";
import type { GraphValue } from "../graph-value.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { visitScannSearch } from "./scann-index.ts";

const attributes = new Attributes("", new Map());
const stored = (key: string) => ({ kind: "bundle", key, slice: undefined }) as const;

/** ScannConfig: `num_neighbors: 7`, and the distance if there is one. */
function configOf(distance: string | undefined): Uint8Array {
  if (distance === undefined) return Uint8Array.of(0x18, 7);
  const name = new TextEncoder().encode(distance);
  return Uint8Array.of(0x18, 7, 0x2a, name.length + 2, 0x0a, name.length, ...name);
}

interface Searched {
  readonly distance?: string | undefined;
  readonly shape?: readonly number[];
  readonly k?: number | GraphValue;
}

/** The operations that a search becomes, the k of its top-k, and its outputs. */
function searchOf({ distance, shape = [40, 8], k = 5 }: Searched) {
  const text = StringColumn.fromBytes([configOf(distance)]);
  const content: Tensor = { dtype: "string", shape: [], data: text };
  const lowering = { sources: { files: { contentOf: () => content } } } as unknown as Lowering;
  const index = {
    kind: "operation",
    op: "Scann>TensorsToScann",
    name: "index",
    attributes,
  } as const;
  const inputs: readonly GraphValue[] = [
    { dtype: "float32", shape, stored: stored("vectors") },
    { dtype: "string", shape: [], stored: stored("config") },
  ];
  const producer = { ...index, inputs, outputs: [] };
  const handle: GraphValue = { dtype: "resource", shape: [], producer };
  const queries: GraphValue = { dtype: "float32", shape: [-1, 8] };
  const depth =
    typeof k === "number"
      ? constantValue({ dtype: "int32", shape: [], data: Int32Array.of(k) })
      : k;
  const visited: Visit[] = [];
  const visitPlain = (visit: Visit): readonly GraphValue[] => {
    visited.push(visit);
    return visit.node.outputDtypes.map((dtype) => ({ dtype, shape: undefined }));
  };
  const node = { op: "Scann>ScannSearchBatched", name: "s", attributes, outputDtypes: [] };
  const visit: Visit = { node, inputs: [handle, queries, depth], walk: undefined as never };
  const outputs = visitScannSearch(lowering, visit, visitPlain);
  const asked = visited.at(1)?.inputs[1];
  return {
    ops: visited.map((each) => each.node.op),
    k: asked === undefined ? undefined : (integerOf(asked) ?? asked),
    dtypes: outputs?.map(({ dtype }) => dtype),
  };
}

describe("a search of a ScaNN index", () => {
  const dot = "DotProductDistance";

  test.each([
    ["finds as many items as it asks for", 5, 5],
    ["finds as many as the index says", -1, 7],
    ["finds all of fewer items", 100, 40],
  ])("%s", (_, k, found) => {
    expect(searchOf({ distance: dot, k })).toEqual({
      ops: ["MatMul", "TopKV2"],
      k: found,
      dtypes: ["int32", "float32"],
    });
  });

  test("takes its k from a request", () => {
    const k: GraphValue = { dtype: "int32", shape: [] };

    expect(searchOf({ distance: dot, k }).k).toBe(k);
  });

  test.each<[string, Searched]>([
    ["of an index without its vectors", { distance: dot, shape: [] }],
    ["by another distance", { distance: "SquaredL2Distance" }],
    ["by ScaNN's default distance", { distance: undefined }],
    ["for no items", { distance: dot, k: 0 }],
  ])("%s stays what it is", (_, searched) => {
    expect(searchOf(searched)).toEqual({ ops: [], k: undefined, dtypes: undefined });
  });
});
