// Decides where each node of a signature runs, and in which phase. Strings and the integers made
// from them run on the host, floats in a dense part. Operations that only rearrange the results of
// a search stay on the host, which saves a phase; so do ids of rows that a dense part ranks, because a
// router may have to rank them itself. All dense nodes of one phase, and of one branch of a
// conditional, become one ONNX model:
//
//   phase 0   host, lookups           (what needs no dense part)
//   phase 1   dense model 1, then host, lookups and searches that need it
//   phase 2   dense model 2, …
//
// A node's phase is the number of dense parts on the longest path to it, so steps cannot wait for
// each other in a circle.

import { WinnowError, isHostOperation } from "@winnow/core";
import { typeName } from "../bundle/data-type.ts";
import { dependenciesOf } from "./graph-value.ts";
import type { GraphValue, LoweredNode, OperationNode } from "./graph-value.ts";
import { MissingOperations, unsupported } from "./missing-operations.ts";
import { refuseNarrow } from "./narrow-values.ts";
import { denseOperationNames, refusalOfTranslation } from "./onnx/dense-translation.ts";
import { withoutAddedAxis } from "./scores/values/rearrangement.ts";

/** Where a node runs: `remote` are lookups and searches, and choices between branches. */
type Side = "host" | "dense" | "remote";

/** A node's side and phase. */
export interface NodePlace {
  readonly side: Side;
  readonly phase: number;
}

const FLOATS: ReadonlySet<string> = new Set(["float32", "float64"]);

/**
 * Not worth a dense part: the integers they give may be keys of a lookup, which would wait a phase.
 */
const CHEAP: ReadonlySet<string> = new Set(["Cast", "Shape", "Size", "Reshape", "ExpandDims"]);

/** Places, and those top-k operations of dense parts whose results no dense node reads. */
export interface PlacedNodes {
  readonly places: ReadonlyMap<LoweredNode, NodePlace>;
  readonly rankings: ReadonlySet<LoweredNode>;
}

/** Nodes that are being placed. */
interface Placing extends PlacedNodes {
  readonly ofSearches: ReadonlySet<LoweredNode>;
}

/**
 * Places nodes that stand in order. `rankings` are top-k operations whose results would rather be read on the host: ids
 * are gathered there, as behind a search. @throws WinnowError UNIMPLEMENTED naming all that cannot run
 */
export function placeNodes(
  nodes: readonly LoweredNode[],
  rankings: ReadonlySet<LoweredNode>,
): PlacedNodes {
  for (let left = rankings; ;) {
    const places = placedNodes(nodes, left);
    const readers = nodes.filter((node) => places.get(node)?.side === "dense");
    const read = new Set(
      readers.flatMap((node) => node.inputs.flatMap(({ producer }) => producer ?? [])),
    );
    const unread = [...left].filter(
      (node) => places.get(node)?.side === "dense" && !read.has(node),
    );
    if (unread.length === left.size) return { places, rankings: left };
    left = new Set(unread);
  }
}

function placedNodes(
  nodes: readonly LoweredNode[],
  rankings: ReadonlySet<LoweredNode>,
): ReadonlyMap<LoweredNode, NodePlace> {
  const places = new Map<LoweredNode, NodePlace>();
  const missing = new MissingOperations();
  const ofSearches = nodesOfSearches(nodes);
  const placed = { places, rankings, ofSearches };
  for (const node of nodes) {
    const side = node.kind === "operation" ? sideOf(node, placed, missing) : "remote";
    let phase = side === "dense" ? 1 : 0;
    for (const { producer } of dependenciesOf(node)) {
      const place = producer === undefined ? undefined : places.get(producer);
      if (place === undefined) continue;
      const isNext = side === "dense" && place.side !== "dense";
      phase = Math.max(phase, place.phase + Number(isNext));
    }
    places.set(node, { side, phase });
  }
  missing.refuse(nodes);
  return places;
}

function sideOf(
  node: OperationNode,
  placed: Placing,
  missing: MissingOperations,
): Exclude<Side, "remote"> {
  refuseNarrow(node);
  const canHost = isHostOperation(node.op);
  const isKnown = canHost || denseOperationNames.includes(node.op);
  const isStrange = isKnown && node.outputs.some(({ dtype }) => dtype === "invalid");
  const refusal = isNumeric(node) ? refusalOfTranslation(node) : unsupported(node);
  if (isStrange) missing.add(node, ofStrangeType(node));
  else if (refusal !== undefined && !canHost) missing.add(node, refusal);
  if (refusal !== undefined || !canHost) return canHost ? "host" : "dense";
  return preferredSide(node, placed);
}

/** The refusal of an operation whose results are of a type that Winnow does not have, such as float8. */
function ofStrangeType({ op, name, attributes }: OperationNode): WinnowError {
  const type = attributes.get("DstT") ?? attributes.get("T");
  const named = type?.kind === "type" ? typeName(type.value) : "an unknown type";
  const what = `operation ${op} (node ${name}) gives values of ${named}`;
  return new WinnowError("UNIMPLEMENTED", `${what}, which is not supported`);
}

/** The side for an operation that both sides can do. */
function preferredSide(
  node: OperationNode,
  { places, rankings, ofSearches }: Placing,
): Exclude<Side, "remote"> {
  const computed = node.inputs.filter(({ constant, stored }) => !constant && !stored);
  const isOfRows = computed.length === 1 && isOfRanking(computed[0]!, { places, rankings });
  if (isOfRows && mapsRows(node)) return "host";
  const isOfDense = computed.some(({ producer }) => placeOf(producer, places)?.side === "dense");
  if (isOfDense) return "dense";
  const isAfterSearch =
    computed.length > 0 && computed.every((value) => isSearchResult(value, places));
  if (isAfterSearch) return "host";
  if (isCheap(node, ofSearches) && computed.every((value) => isOfHost(value, places)))
    return "host";
  const touchesFloats = [...computed, ...node.outputs].some(({ dtype }) => FLOATS.has(dtype));
  return touchesFloats ? "dense" : "host";
}

/**
 * Whether an operation is not worth a dense part. `values[:, None]` is another ExpandDims, where searches alone read it: what
 * is computed of values on the host stays there.
 */
function isCheap(node: OperationNode, ofSearches: ReadonlySet<LoweredNode>): boolean {
  if (CHEAP.has(node.op)) return true;
  const [output] = node.outputs;
  return (
    node.op === "StridedSlice" &&
    ofSearches.has(node) &&
    output?.shape?.some((_, axis) => withoutAddedAxis(output, axis) !== undefined) === true
  );
}

/** The nodes whose results searches alone read. */
function nodesOfSearches(nodes: readonly LoweredNode[]): ReadonlySet<LoweredNode> {
  const found = new Set<LoweredNode>();
  const others = new Set<LoweredNode>();
  for (const node of nodes) {
    const into = node.kind === "topK" ? found : others;
    for (const { producer } of dependenciesOf(node)) if (producer !== undefined) into.add(producer);
  }
  return new Set([...found].filter((node) => !others.has(node)));
}

/** Whether a node makes one value of each row number: an id, another type, or the row of a longer table. */
function mapsRows({ op, inputs, outputs }: OperationNode): boolean {
  if (outputs.some(({ dtype }) => FLOATS.has(dtype))) return false;
  if (op === "Gather" || op === "GatherV2") return inputs[0]?.shape?.length === 1;
  const isSum = op === "Add" || op === "AddV2" || op === "Sub";
  return op === "Cast" || (isSum && inputs.some(({ shape }) => shape?.length === 0));
}

/** Whether a value is a result of a ranking, or made of one on the host. */
function isOfRanking({ producer }: GraphValue, { places, rankings }: PlacedNodes): boolean {
  if (producer === undefined) return false;
  if (rankings.has(producer)) return true;
  const isOnHost = producer.kind === "operation" && places.get(producer)?.side === "host";
  const computed = producer.inputs.filter(({ constant, stored }) => !constant && !stored);
  const isMapped = isOnHost && mapsRows(producer) && computed.length === 1;
  return isMapped && isOfRanking(computed[0]!, { places, rankings });
}

function placeOf(
  node: LoweredNode | undefined,
  places: ReadonlyMap<LoweredNode, NodePlace>,
): NodePlace | undefined {
  return node === undefined ? undefined : places.get(node);
}

/** Whether a value is an input of the signature or made on the host. */
function isOfHost({ producer }: GraphValue, places: ReadonlyMap<LoweredNode, NodePlace>): boolean {
  return producer === undefined || places.get(producer)?.side === "host";
}

/** Whether a value is the result of a search or made on the host. */
function isSearchResult(value: GraphValue, places: ReadonlyMap<LoweredNode, NodePlace>): boolean {
  const { producer } = value;
  if (producer?.kind === "topK") return true;
  return producer !== undefined && places.get(producer)?.side === "host";
}

function isNumeric(node: OperationNode): boolean {
  return [...node.inputs, ...node.outputs].every(
    ({ dtype }) => dtype !== "string" && dtype !== "variant" && dtype !== "invalid",
  );
}
