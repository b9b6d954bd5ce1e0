// Searches of a ScaNN index that holds the original vectors, as one with reordering does. ScaNN finds items approximately; here
// the same vectors are searched exactly, so the graph is followed as if it multiplied and ranked them.
//
//   ScannSearchBatched(TensorsToScann(vectors, config, …), queries, k, …)   top_k(matmul(queries, vectors), k), indices first
//
// Operations: scann_ops.cc of ScaNN; `config` is a ScannConfig (scann.proto, distance_measure.proto).

import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue, integerOf, producerOf } from "../graph-value.ts";
import type { GraphValue } from "../graph-value.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { messageReader } from "../../message.ts";
import { isSingle } from "./values/scalar-value.ts";

/** Visits an operation that stands in the place of another one. */
type VisitPlain = (visit: Visit) => readonly GraphValue[];

/** What an index says of its searches. */
interface IndexConfig {
  /** Of the queries and vectors; ScaNN gives back dot products as they are, and other measures otherwise. */
  readonly distance: string;
  /** Items that a search finds if it does not say how many. */
  readonly neighbors: number | undefined;
}

const DOT_PRODUCT = "DotProductDistance";
/** Field numbers of ScannConfig and DistanceMeasureConfig. */
const NUM_NEIGHBORS = 3;
const DISTANCE_MEASURE = 5;
const DISTANCE_NAME = 1;

/** Handles Scann>ScannSearchBatched; `undefined` for an index without its vectors or with another measure. */
export function visitScannSearch(
  lowering: Lowering,
  { node, inputs, walk }: Visit,
  visitPlain: VisitPlain,
): readonly GraphValue[] | undefined {
  const [handle, queries, wanted] = inputs;
  if (handle === undefined || queries === undefined || wanted === undefined) return undefined;
  const index = exactIndexOf(lowering, handle);
  const k = index && depthOf(wanted, index);
  if (index === undefined || k === undefined) return undefined;
  const [scores] = visitPlain({
    node: {
      op: "MatMul",
      name: `${node.name}/product`,
      attributes: attributesOf(node.name, [["transpose_b", { kind: "bool", value: true }]]),
      outputDtypes: ["float32"],
    },
    inputs: [queries, index.vectors],
    walk,
  });
  const [best, rows] = visitPlain({
    node: {
      op: "TopKV2",
      name: node.name,
      attributes: attributesOf(node.name, []),
      outputDtypes: ["float32", "int32"],
    },
    inputs: [scores!, k],
    walk,
  });
  return [rows!, best!];
}

/** An index that can be searched exactly. */
interface ExactIndex {
  /** `[items, dim]`. */
  readonly vectors: GraphValue;
  readonly items: number;
  /** Items that a search finds if it does not say how many. */
  readonly neighbors: number | undefined;
}

function exactIndexOf({ sources }: Lowering, handle: GraphValue): ExactIndex | undefined {
  const [vectors, config] = producerOf(handle, "Scann>TensorsToScann")?.inputs ?? [];
  if (vectors?.stored === undefined || config?.stored === undefined) return undefined;
  // A scalar stands for vectors that the export leaves out.
  if (vectors.shape?.length !== 2 || !isSingle(config)) return undefined;
  const content = sources.files.contentOf(config.stored);
  if (content.dtype !== "string") return undefined;
  const { distance, neighbors } = indexConfigOf(content.data.at(0));
  return distance === DOT_PRODUCT ? { vectors, items: vectors.shape[0]!, neighbors } : undefined;
}

function attributesOf(
  name: string,
  values: readonly (readonly [string, AttributeValue])[],
): Attributes {
  return new Attributes(name, new Map(values));
}

/** A k below 0 asks for the index' own; no search finds more items than there are. */
function depthOf(wanted: GraphValue, { neighbors, items }: ExactIndex): GraphValue | undefined {
  const asked = integerOf(wanted);
  if (asked === undefined) return wanted.constant === undefined ? wanted : undefined;
  const k = asked < 0 ? neighbors : asked;
  if (k === undefined || k < 1) return undefined;
  return constantValue({ dtype: "int32", shape: [], data: Int32Array.of(Math.min(k, items)) });
}

/** @throws WinnowError DATA_LOSS for bytes that are no message */
function indexConfigOf(bytes: Uint8Array): IndexConfig {
  const reader = messageReader(bytes, "the configuration of a ScaNN index");
  let distance = "SquaredL2Distance";
  let neighbors: number | undefined;
  while (reader.next()) {
    if (reader.field === NUM_NEIGHBORS) neighbors = reader.int();
    else if (reader.field === DISTANCE_MEASURE) {
      const measure = reader.message();
      while (measure.next()) if (measure.field === DISTANCE_NAME) distance = measure.text();
    }
  }
  return { distance, neighbors };
}
