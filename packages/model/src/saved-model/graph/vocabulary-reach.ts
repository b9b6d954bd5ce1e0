// Refuses a vocabulary file that is shorter than the table it leads to. A file that was cut short
// parses like a good one: the keys that it lost become unknown keys, and their answers are wrong.
// The sign of a cut is the table behind the vocabulary, whose last rows no key leads to:
//
//   assets/users.txt   60 lines ─▶ rows 1 … 60 of an embedding table of 121: 60 rows without a key
//   assets/users.txt   60 lines ─▶ rows 0 … 59, unknown users ─▶ row 120: again 60 rows without
//
// So an upper bound of the rows that keys can lead to is computed from the graph, over all lookups
// of a table and all signatures: from constants, vocabularies, hashes and arithmetic on them. Where
// no bound is known (rows that come from the request, an operation without a rule), nothing is
// refused. One-hot vectors count as tables here, and so do the rows that a search finds where a
// file gives their identifiers. A file that a manifest lists may be of any length.

import { WinnowError, excerpt } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { textOfStored } from "../partitions/stored-table.ts";
import type { StoredTable, StoredTensor, TextVocabulary } from "../partitions/stored-table.ts";
import type { GraphValue, OperationNode } from "./graph-value.ts";
import { integerOf } from "./graph-value.ts";
import type { SignatureGraph } from "./signature-graph.ts";
import type { TableContents } from "./sources/table-contents.ts";

/** What vocabularies are compared with. */
export interface VocabularyTargets {
  /** The version's tables, by number. */
  readonly tables: readonly StoredTable[];
  readonly contents: Pick<TableContents, "get" | "textOf">;
  /** Whether a manifest lists a file under `assets/`, so that the file is known to be whole. */
  readonly isVouchedFor: (file: string) => boolean;
}

/** An upper bound of the integers that a value may hold; `undefined` where no bound is known. */
interface Reach {
  readonly highest: number | undefined;
  /**
   * An upper bound of all values but `highest` itself: where unknown keys lead to the last row, the
   * rows between have no key. `undefined`: any value up to `highest` may occur.
   */
  readonly others?: number | undefined;
  /** Names of the lookup tables that the bound depends on and that a file fills. */
  readonly vocabularies: ReadonlySet<string>;
}

/** Something with rows, and the bound over all lookups into it. */
interface Target {
  readonly name: string;
  readonly rows: number;
  readonly reach: Reach;
}

const NODES_MAX = 256;
/** Of `TextVocabulary`: the key or value is the line's number. */
const LINE_NUMBER = -1;
const NOTHING: ReadonlySet<string> = new Set();
const UNKNOWN: Reach = { highest: undefined, vocabularies: NOTHING };

/**
 * Refuses vocabulary files that are too short for the tables they lead to.
 * @throws WinnowError DATA_LOSS naming file, entries found and expected, and what would help
 */
export function checkVocabularies(
  graphs: readonly SignatureGraph[],
  targets: VocabularyTargets,
): void {
  const scan = new ReachScan(targets);
  const embeddings = new Map<StoredTensor | string, Target>();
  for (const node of graphs.flatMap(({ nodes }) => nodes)) {
    if (node.kind === "lookup") {
      const { spec, rows: stored } = targets.tables[node.table]!;
      const key = stored.kind === "bundle" ? textOfStored(stored) : stored;
      const before = embeddings.get(key)?.reach;
      const reach = scan.reachOf(node.rows);
      const together = before === undefined ? reach : highestOf([before, reach]);
      embeddings.set(key, { name: `table "${spec.name}"`, rows: spec.rows, reach: together });
    } else if (node.kind === "operation") {
      for (const target of targetsOf(node, scan, targets)) check(target, targets);
    }
  }
  for (const target of embeddings.values()) check(target, targets);
}

/** One-hot vectors, as wide as a vocabulary is long, and identifiers that a file gives to rows. */
function targetsOf(node: OperationNode, scan: ReachScan, targets: VocabularyTargets): Target[] {
  const target =
    node.op === "LookupTableFindV2" ? identifiersOf(node, scan, targets) : vectorsOf(node, scan);
  return target === undefined ? [] : [target];
}

function vectorsOf(node: OperationNode, scan: ReachScan): Target | undefined {
  if (node.op !== "OneHot" && node.op !== "DenseBincount") return undefined;
  const [numbers, width] = node.inputs;
  const rows = integerOf(width);
  if (numbers === undefined || rows === undefined) return undefined;
  const name = `${node.op === "OneHot" ? "one-hot" : "multi-hot"} vectors (node ${node.name})`;
  return { name, rows, reach: scan.reachOf(numbers) };
}

function identifiersOf(
  { inputs }: OperationNode,
  scan: ReachScan,
  { contents }: VocabularyTargets,
): Target | undefined {
  const [handle, keys] = inputs;
  const search = keys?.producer;
  const table = handle?.resource?.name;
  if (search?.kind !== "topK" || search.outputs[1] !== keys || table === undefined) {
    return undefined;
  }
  if (contents.textOf(table)?.keyIndex !== LINE_NUMBER) return undefined;
  const highest = largestOf(contents.get(table).vocabulary.keys);
  const reach = { highest, vocabularies: new Set([table]) };
  return { name: `the items of node ${search.name}`, rows: scan.rowsOf(search.table), reach };
}

function check({ name, rows, reach }: Target, { contents, isVouchedFor }: VocabularyTargets): void {
  const { highest } = reach;
  if (highest === undefined) return;
  const unused = Math.max(0, rows - highest - 1) + highest - 1 - (reach.others ?? highest - 1);
  if (unused <= 0) return;
  const files = [...reach.vocabularies].flatMap((table) => {
    const text = contents.textOf(table);
    const entries = contents.get(table).vocabulary.keys.data.length;
    return text === undefined || isVouchedFor(text.file) ? [] : [{ ...text, entries }];
  });
  if (files.length === 0) return;
  throw new WinnowError(
    "DATA_LOSS",
    shortText(name, { rows, used: rows - unused, hasLast: highest + 1 === rows, files }),
  );
}

function shortText(
  name: string,
  found: {
    readonly rows: number;
    readonly used: number;
    /** Whether unknown keys lead to the last row: the unused ones lie before it. */
    readonly hasLast: boolean;
    readonly files: readonly (TextVocabulary & { readonly entries: number })[];
  },
): string {
  const { rows, used, hasLast, files } = found;
  const short = rows - used;
  const [first] = files;
  const where = hasLast ? `the first ${used - 1} and the last` : `the first ${used}`;
  const what =
    files.length === 1
      ? `assets/${excerpt(first!.file)} has ${first!.entries} entries where ${first!.entries + short} belong`
      : `${files.map(({ file, entries }) => `assets/${excerpt(file)} (${entries} entries)`).join(" and ")} lack ${short} entries`;
  return (
    `Refused a vocabulary: ${what}: ${name} has ${rows} rows, and keys lead to ${where} alone. ` +
    "The file may be cut; copy the version again. If the rest is kept free on purpose, list the " +
    "version's files in SHA256SUMS (docs/models.md)"
  );
}

/** Computes reaches, each value's once. */
class ReachScan {
  readonly #targets: VocabularyTargets;
  readonly #known = new Map<GraphValue, Reach>();

  constructor(targets: VocabularyTargets) {
    this.#targets = targets;
  }

  rowsOf(table: number): number {
    return this.#targets.tables[table]?.spec.rows ?? 0;
  }

  /** The reach of a value; without recursion, because graphs may be deep. */
  reachOf(value: GraphValue): Reach {
    const stack = [{ value, isLeaving: false }];
    let visits = 0;
    for (let frame = stack.pop(); frame !== undefined; frame = stack.pop()) {
      if (this.#known.has(frame.value)) continue;
      const inputs = partsOf(frame.value);
      visits += 1;
      if (visits > 2 * NODES_MAX) return UNKNOWN;
      if (frame.isLeaving || inputs.length === 0) {
        const reaches = inputs.map((input) => this.#known.get(input) ?? UNKNOWN);
        this.#known.set(frame.value, this.#reachFrom(frame.value, reaches));
        continue;
      }
      stack.push({ value: frame.value, isLeaving: true });
      for (const input of inputs) stack.push({ value: input, isLeaving: false });
    }
    return this.#known.get(value) ?? UNKNOWN;
  }

  #reachFrom(value: GraphValue, inputs: readonly Reach[]): Reach {
    if (value.constant !== undefined) return constantReach(value.constant);
    const node = value.producer;
    if (node?.kind === "topK" && node.outputs[1] === value) {
      return { highest: this.rowsOf(node.table) - 1, vocabularies: NOTHING };
    }
    if (node?.kind !== "operation") return UNKNOWN;
    if (node.op === "LookupTableFindV2") return this.#lookedUp(node, inputs);
    return RULES.get(node.op)?.reach(node, inputs) ?? UNKNOWN;
  }

  /** The reach of a lookup: the table's values, and the value for a missing key. */
  #lookedUp({ inputs }: OperationNode, [missing]: readonly Reach[]): Reach {
    const table = inputs[0]?.resource?.name;
    if (table === undefined || missing === undefined) return UNKNOWN;
    const { contents } = this.#targets;
    const { values } = contents.get(table).vocabulary;
    const text = contents.textOf(table);
    if (text === undefined) {
      return highestOf([{ highest: largestOf(values), vocabularies: NOTHING }, missing]);
    }
    // Line numbers ascend, so the last one is the highest.
    const isAscending = text.valueIndex === LINE_NUMBER && values.dtype === "int64";
    const highest = isAscending ? Number(values.data.at(-1) ?? -1) : largestOf(values);
    // One number for all missing keys: whatever lies between the file's last row and it has no key.
    const last = integerOf(inputs[2]) === undefined ? missing : { ...missing, others: -1 };
    return highestOf([{ highest, vocabularies: new Set([table]) }, last]);
  }
}

/** How the reach of an operation's result follows from the reaches of its inputs. */
interface Rule {
  /** Positions of the inputs that matter, from the number of inputs. */
  readonly parts: (count: number) => readonly number[];
  readonly reach: (node: OperationNode, inputs: readonly Reach[]) => Reach;
}

const at =
  (...positions: number[]): Rule["parts"] =>
  () =>
    positions;
const all: Rule["parts"] = (count) => Array.from({ length: count }, (_, position) => position);
const handedOn: Rule["reach"] = (_, inputs) => highestOf(inputs);
const added: Rule["reach"] = ({ inputs }, [a, b]) => {
  const [first, second] = inputs.map(integerOf);
  if (second !== undefined) return both(a, a, (value) => value + second);
  if (first !== undefined) return both(b, b, (value) => value + first);
  const { highest, vocabularies } = both(a, b, (x, y) => x + y);
  return { highest, vocabularies };
};
const bounded = (size: number): Reach =>
  size > 0 ? { highest: size - 1, vocabularies: NOTHING } : UNKNOWN;

/** Operations whose results hold only values of the inputs at these positions. */
const HANDED_ON: readonly (readonly [string, Rule["parts"]])[] = [
  ["Cast,Reshape,ExpandDims,Squeeze,Slice,StridedSlice,Tile,Transpose,GatherNd", at(0)],
  ["GatherV2,BroadcastTo,ReverseV2,Unpack,SplitV", at(0)],
  ["Split", at(1)],
  ["PadV2", at(0, 2)],
  ["SelectV2,Select,RaggedTensorToTensor", at(1, 2)],
  ["Pack,Maximum", all],
  ["ConcatV2", (count) => all(count - 1)],
];

const RULES: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...HANDED_ON.flatMap(([ops, parts]) =>
    ops.split(",").map((op): [string, Rule] => [op, { parts, reach: handedOn }]),
  ),
  ["Add", { parts: all, reach: added }],
  ["AddV2", { parts: all, reach: added }],
  ["Sub", { parts: at(0), reach: reduced }],
  ["Mul", { parts: all, reach: multiplied }],
  ["Minimum", { parts: all, reach: (_, inputs) => lowestOf(inputs) }],
  ["Pad", { parts: at(0), reach: (_, inputs) => highestOf([...inputs, bounded(1)]) }],
  [
    "StringToHashBucketFast",
    { parts: at(), reach: ({ attributes }) => bounded(attributes.int("num_buckets", 0)) },
  ],
  ["FloorMod", { parts: at(), reach: ({ inputs }) => bounded(integerOf(inputs[1]) ?? 0) }],
]);

/** The values that decide the reach of a value. */
function partsOf(value: GraphValue): readonly GraphValue[] {
  const node = value.producer;
  if (value.constant !== undefined || node?.kind !== "operation") return [];
  const parts = node.op === "LookupTableFindV2" ? at(2) : RULES.get(node.op)?.parts;
  return (parts?.(node.inputs.length) ?? []).flatMap((position) => node.inputs[position] ?? []);
}

function reduced({ inputs }: OperationNode, [reach]: readonly Reach[]): Reach {
  const by = integerOf(inputs[1]);
  return by === undefined ? UNKNOWN : both(reach, reach, (highest) => highest - by);
}

/** A product with a constant that is not negative, which keeps the order of numbers. */
function multiplied({ inputs }: OperationNode, [a, b]: readonly Reach[]): Reach {
  const by = integerOf(inputs[1]) ?? integerOf(inputs[0]) ?? -1;
  if (by < 0) return UNKNOWN;
  const { highest, vocabularies } = both(a, b, (x, y) => x * y);
  return { highest, vocabularies };
}

/** The reach of a minimum of several values: one known bound suffices. */
function lowestOf(reaches: readonly Reach[]): Reach {
  const known = reaches.flatMap(({ highest }) => highest ?? []);
  return known.length === 0
    ? UNKNOWN
    : {
        highest: Math.min(...known),
        vocabularies: new Set(reaches.flatMap(({ vocabularies }) => [...vocabularies])),
      };
}

function both(
  a: Reach | undefined,
  b: Reach | undefined,
  arithmetic: (x: number, y: number) => number,
): Reach {
  if (a?.highest === undefined || b?.highest === undefined) return UNKNOWN;
  const { vocabularies, others } = highestOf([a, b]);
  const highest = arithmetic(a.highest, b.highest);
  return {
    highest,
    others: others === undefined ? undefined : arithmetic(others, others),
    vocabularies,
  };
}

/** The reach of a value that may be any of several values. */
function highestOf(reaches: readonly Reach[]): Reach {
  const vocabularies = new Set(reaches.flatMap((reach) => [...reach.vocabularies]));
  if (reaches.length === 0 || reaches.some(({ highest }) => highest === undefined)) {
    return { highest: undefined, vocabularies };
  }
  const highest = Math.max(...reaches.map((reach) => reach.highest ?? 0));
  const others = reaches.map((reach) =>
    reach.highest === highest ? (reach.others ?? highest) : reach.highest!,
  );
  const below = Math.max(...others);
  return { highest, others: below < highest ? below : undefined, vocabularies };
}

function constantReach(tensor: Tensor): Reach {
  return { highest: largestOf(tensor), vocabularies: NOTHING };
}

/** The largest integer of a tensor, -1 for none at all; `undefined` for other types. */
function largestOf(tensor: Tensor): number | undefined {
  if (tensor.dtype !== "int32" && tensor.dtype !== "int64") return undefined;
  let largest: number | bigint = -1;
  for (const value of tensor.data) if (value > largest) largest = value;
  return Number(largest);
}
