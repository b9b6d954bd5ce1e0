// Which elements of a list the iterations of a loop write. One item is collected per iteration, so the places
// must follow from the number of the iteration:
//
//   index of the element         list
//   its end (PushBack)           was empty                   items in order
//   k, k+1, k+2, …               was written up to k         the items before, then those of the iterations
//   count-1, count-2, …          was not written             items in reverse order
//   0, in each iteration         has one element             the item of the last iteration

import type { GraphValue, LoopList, TensorList } from "../graph-value.ts";
import { integerOf, producerOf } from "../graph-value.ts";
import type { GraphNode } from "../graph-walk.ts";
import { metShape, unfollowed } from "./tensor-lists.ts";

/** The state of a loop: before it, and at both ends of any iteration. */
export interface IterationValues {
  readonly initial: readonly GraphValue[];
  readonly parameters: readonly GraphValue[];
  readonly next: readonly GraphValue[];
}

type Writing = Extract<TensorList, { kind: "written" }>;
type Room = Extract<TensorList, { kind: "reserved" }>;

/** A list as a loop finds it: its room, and the items written from its first element on. */
interface Beginning {
  readonly room: Room;
  readonly items: readonly GraphValue[];
}

/** The list at one position of the state. @throws WinnowError UNIMPLEMENTED for other places */
export function listOfIterations(node: GraphNode, values: IterationValues, at: number): LoopList {
  const written = values.next[at]?.list;
  if (written?.kind !== "written" || written.before !== values.parameters[at]) {
    throw unfollowed(node, "does not write into each of its lists once an iteration");
  }
  const beginning = beginningOf(values.initial[at]?.list);
  if (beginning === undefined) {
    throw unfollowed(node, "goes on with a list that was not written from its first element on");
  }
  const kind = kindOf(written, beginning, values);
  if (kind === undefined) {
    throw unfollowed(node, "writes into a list at places that do not count with its iterations");
  }
  const { room, items } = beginning;
  const shape = metShape(written.item.shape, room.elementShape);
  if (shape === undefined) throw unfollowed(node, "writes items of an unknown rank into a list");
  const count = kind === "last" || isOpen(written, room) ? undefined : room.count;
  return { kind, item: written.item, shape, before: items, count };
}

/** Whether a list becomes as long as its writings make it. */
function isOpen({ index, grows }: Writing, { count }: Room): boolean {
  return index === undefined || (grows && integerOf(count) === 0);
}

function kindOf(
  { index }: Writing,
  { room, items }: Beginning,
  values: IterationValues,
): LoopList["kind"] | undefined {
  const size = integerOf(room.count);
  if (index === undefined) return size === 0 ? "collected" : undefined;
  if (integerOf(index) === 0) return size === 1 && items.length === 0 ? "last" : undefined;
  const { first, step } = countingOf(index, values) ?? {};
  if (step === 1) return integerOf(first) === items.length ? "collected" : undefined;
  const isFromEnd = step === -1 && items.length === 0 && isOneLess(first, room.count);
  return isFromEnd ? "backwards" : undefined;
}

/** What a value of the state begins with, and what each iteration adds to it. */
function countingOf(
  index: GraphValue,
  { initial, parameters, next }: IterationValues,
): { readonly first: GraphValue; readonly step: number } | undefined {
  const at = parameters.indexOf(index);
  const [first, sum] = at < 0 ? [] : [initial[at], producerOf(next[at]!, "AddV2", "Add", "Sub")];
  if (first === undefined || first === index || sum === undefined) return undefined;
  const [left, right] = sum.inputs;
  const isDifference = sum.op === "Sub";
  const other = left === index ? right : left;
  const added = integerOf(other);
  const isOwnSum = left === index || (right === index && !isDifference);
  if (!isOwnSum || added === undefined) return undefined;
  return { first, step: isDifference ? -added : added };
}

function beginningOf(list: TensorList | undefined): Beginning | undefined {
  const writings: Writing[] = [];
  let room = list;
  while (room?.kind === "written") {
    writings.push(room);
    room = room.before.list;
  }
  const inOrder = writings.toReversed();
  const isFromFirst = inOrder.every(
    ({ index }, place) => index === undefined || integerOf(index) === place,
  );
  if (room?.kind !== "reserved" || !isFromFirst) return undefined;
  return { room, items: inOrder.map(({ item }) => item) };
}

const DIFFERENCES_MAX = 4;

/** Whether a value is computed as another one less 1. */
function isOneLess(value: GraphValue | undefined, other: GraphValue): boolean {
  let [rest, less]: [GraphValue | undefined, number] = [value, 0];
  for (let hops = 0; hops < DIFFERENCES_MAX && rest !== undefined; hops += 1) {
    const [known, whole] = [integerOf(rest), integerOf(other)];
    if (rest === other) return less === 1;
    if (known !== undefined) return whole !== undefined && known + 1 - less === whole;
    const [from, subtracted] = producerOf(rest, "Sub")?.inputs ?? [];
    [rest, less] = [from, less + (integerOf(subtracted) ?? Number.NaN)];
  }
  return false;
}
