// What the users of a request have seen, as its pipeline's `seen` stages say: item ids for each instance,
// which the retrieval excludes. The budget of a stage and the limits of requests bound this. Items that are
// not known in time, or for which there is no room, are not excluded, and the answer says so as a
// degradation. What cannot be read of one user takes nothing from the others of the request.

import {
  StringColumn,
  WinnowError,
  keyWith,
  parseKeyPattern,
  stringTensor,
  tensor,
} from "@winnow/core";
import type { Clock, SeenStage, Tensor } from "@winnow/core";
import { keyBytes } from "@winnow/cluster";
import type { SeenItems, SeenMembers, SeenQuestion } from "@winnow/cluster";
import type { Degradation } from "../predictor.ts";
import { instancesOf } from "../limits/request-limits.ts";
import type { RequestLimits } from "../limits/request-limits.ts";
import { joinedTensors, take } from "./candidates.ts";
import { requestInput } from "./member-access.ts";
import type { PipelineRun } from "./pipeline-run.ts";

/** Members that all keys of one request may give together; each is held in memory. */
const REQUEST_MEMBERS_MAX = 2 ** 18;
/**
 * Ids, and their bytes, that all instances of a request may exclude together if something was seen: each
 * instance then has its own list, which repeats what the request excludes for all.
 */
const EXCLUDED_IDS_MAX = REQUEST_MEMBERS_MAX;
const EXCLUDED_BYTES_MAX = 2 ** 26;
/** Bytes of a value in a key, which is the id of a user. */
const KEY_VALUE_BYTES_MAX = 512;

/** What a stage has found. */
export interface SeenOutcome {
  readonly stage: SeenStage;
  /** Ids to exclude for each instance, of the dtype of the items. */
  readonly lists: readonly Tensor[];
  readonly degradations: readonly Degradation[];
  readonly elapsedMs: number;
}

/**
 * Reads what was seen, for all stages at the same time. @throws WinnowError INVALID_ARGUMENT for inputs that
 * cannot be part of a key
 */
export async function readSeen(run: PipelineRun): Promise<readonly SeenOutcome[]> {
  const stages = run.pipeline.stages.filter((stage) => stage.kind === "seen");
  return await Promise.all(stages.map((stage) => readStage(run, stage)));
}

async function readStage(run: PipelineRun, stage: SeenStage): Promise<SeenOutcome> {
  const startMs = run.clock.nowMs();
  const { type, countMax } = stage;
  const keys = keysOf(run, stage);
  const distinct = [...new Set(keys)];
  if (distinct.length * countMax > REQUEST_MEMBERS_MAX) {
    const text = `Cannot read what ${distinct.length} users have seen, ${countMax} items of each`;
    const most = `at most ${REQUEST_MEMBERS_MAX} in all: send fewer instances`;
    throw new WinnowError("INVALID_ARGUMENT", `${text}; ${most}`);
  }
  const found = new Map<string, Reading>();
  await withinBudget(
    run,
    stage,
    Promise.all(
      distinct.map(async (key) => {
        found.set(key, await readKey(run.seenItems, { key, type, countMax }));
      }),
    ),
  );
  const ofKey = (key: string): Reading => found.get(key) ?? { members: [], reason: "late" };
  const lists = keys.map((key) => idsOf(ofKey(key).members, run));
  const reasons = new Set(distinct.map((key) => ofKey(key).reason));
  reasons.delete(undefined);
  const degradations = [...reasons].map((reason) => ({ stage: "seen", reason }) as Degradation);
  return { stage, lists, degradations, elapsedMs: run.clock.nowMs() - startMs };
}

/** What a key holds, and what of it is missing. */
interface Reading extends Pick<SeenMembers, "members"> {
  readonly reason?: Degradation["reason"] | undefined;
}

async function readKey(store: SeenItems | undefined, question: SeenQuestion): Promise<Reading> {
  if (store === undefined) return { members: [], reason: "unavailable" };
  try {
    const { members, isCut } = await store.read(question);
    return { members, reason: isCut ? "cut" : undefined };
  } catch (error) {
    return { members: [], reason: reasonOf(error) };
  }
}

/** Waits for the readings, or until the budget is spent. @throws the reason of a request that is aborted */
async function withinBudget(
  { clock, request }: PipelineRun,
  { budgetMs }: SeenStage,
  readings: Promise<unknown>,
): Promise<void> {
  await request.context.untilAborted(Promise.race([readings, spent(clock, budgetMs, readings)]));
}

/** Resolves when the budget is spent. Leaves no timer if all is read before. */
function spent(
  clock: Pick<Clock, "setTimer" | "clearTimer">,
  budgetMs: number,
  readings: Promise<unknown>,
): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(budgetMs, resolve);
    const clear = (): void => clock.clearTimer(timer);
    void readings.then(clear, clear);
  });
}

function reasonOf(error: unknown): Degradation["reason"] {
  if (!(error instanceof WinnowError)) throw error;
  if (error.code === "FAILED_PRECONDITION") return "type";
  return error.code === "RESOURCE_EXHAUSTED" ? "busy" : "unavailable";
}

/** The key of each instance. */
function keysOf(run: PipelineRun, stage: SeenStage): readonly string[] {
  const found = parseKeyPattern(stage.key);
  if ("fault" in found) throw new RangeError(`a pattern of keys that ${found.fault}`);
  const instances = instancesOf(run.request.signature, run.request.inputs);
  return Array.from({ length: instances }, (_, instance) =>
    keyWith(found.parts, (name) => {
      const { data } = requestInput(run, name);
      const isText = data instanceof StringColumn;
      const value = isText ? data.at(instance) : Buffer.from(String(data[instance]));
      if (value.length <= KEY_VALUE_BYTES_MAX) return value;
      const text = `Input "${name}" of instance ${instance} has ${value.length} bytes`;
      const most = `at most ${KEY_VALUE_BYTES_MAX} can name what was seen`;
      throw new WinnowError("INVALID_ARGUMENT", `${text}; ${most}`);
    }),
  );
}

const INTEGER = /^-?\d{1,19}$/;

/** Members as ids of items. Where items have integer ids, a member that is no int64 is left out. */
function idsOf(
  members: readonly Uint8Array[],
  { pipeline, request }: Pick<PipelineRun, "pipeline" | "request">,
): Tensor {
  const { outputs } = request.signature;
  const { dtype = "string" } = outputs.find(({ name }) => name === pipeline.outputs.ids) ?? {};
  if (dtype === "string") {
    const data = StringColumn.fromBytes(members);
    return { dtype, shape: [members.length], data };
  }
  const ids = members.flatMap((member) => {
    const text = Buffer.from(member).toString("latin1");
    const id = INTEGER.test(text) ? BigInt(text) : undefined;
    return id === undefined || BigInt.asIntN(64, id) !== id ? [] : [id];
  });
  return tensor("int64", [ids.length], BigInt64Array.from(ids));
}

/** Ids to exclude for each instance, and whether some were left out. */
export interface Excluded {
  /** One list for all instances, or one for each. */
  readonly lists: readonly Tensor[] | undefined;
  readonly isCut: boolean;
}

/**
 * The ids that the request itself excludes, with others (those that were seen), up to what one instance may exclude.
 * @throws WinnowError INVALID_ARGUMENT where all instances together exclude too much
 */
export function excludedWith(
  { request, limits }: Pick<PipelineRun, "request" | "limits">,
  outcomes: readonly Pick<SeenOutcome, "lists">[],
): Excluded {
  const own = request.exclude;
  const instances = instancesOf(request.signature, request.inputs);
  if (outcomes.every(({ lists }) => lists.every(({ data }) => data.length === 0))) {
    return { lists: own, isCut: false };
  }
  const ownOf = (instance: number): Tensor | undefined =>
    own === undefined || own.length === 0 ? undefined : own[own.length > 1 ? instance : 0];
  assertRoom(
    Array.from({ length: instances }, (_, instance) => [
      ownOf(instance) ?? NONE,
      ...outcomes.map((outcome) => outcome.lists[instance]!),
    ]).flat(),
  );
  let isCut = false;
  const lists = Array.from({ length: instances }, (_, instance) => {
    const given = ownOf(instance);
    const seen = joinedTensors(outcomes.map((outcome) => outcome.lists[instance]!));
    const asked = asIdsLike(seen, given);
    // If the types differ, the retrieval refuses the request's ids.
    if (asked === undefined) return given!;
    const fitting = fittingCount(seen, asked, limits);
    if (fitting < seen.data.length) isCut = true;
    const positions = Array.from({ length: fitting }, (__, at) => at);
    return joinedTensors([asked, take(seen, positions)]);
  });
  return { lists, isCut };
}

const NONE = stringTensor([]);

/** Checked before lists are copied: until then, many instances of one user share one list. */
function assertRoom(lists: readonly Tensor[]): void {
  const ids = lists.reduce((sum, { data }) => sum + data.length, 0);
  const bytes = lists.reduce((sum, list) => sum + keyBytes(list), 0);
  if (ids <= EXCLUDED_IDS_MAX && bytes <= EXCLUDED_BYTES_MAX) return;
  const text = `Cannot exclude ${ids} ids of ${bytes} bytes, for each instance what was seen, or is its own item, and what is to be excluded beside it`;
  const most = `at most ${EXCLUDED_IDS_MAX} ids and ${EXCLUDED_BYTES_MAX} bytes in all: send fewer instances`;
  throw new WinnowError("INVALID_ARGUMENT", `${text}; ${most}`);
}

/** A request's list in the dtype of `ids`; `undefined` if it has another. */
function asIdsLike(ids: Tensor, given: Tensor | undefined): Tensor | undefined {
  if (given === undefined || given.data.length === 0) {
    return ids.dtype === "string" ? stringTensor([]) : tensor("int64", [0], new BigInt64Array());
  }
  if (given.dtype === ids.dtype) return given;
  if (given.dtype !== "int32" || ids.dtype !== "int64") return undefined;
  return tensor("int64", given.shape, BigInt64Array.from(given.data, BigInt));
}

/** How many of the ids fit into one question beside the request's own. */
function fittingCount(
  ids: Tensor,
  own: Tensor,
  { excludedIdsMax, excludedBytesMax }: Pick<RequestLimits, "excludedIdsMax" | "excludedBytesMax">,
): number {
  const mostIds = Math.min(ids.data.length, Math.max(0, excludedIdsMax - own.data.length));
  let bytes = keyBytes(own);
  if (bytes + keyBytes(ids) <= excludedBytesMax) return mostIds;
  let count = 0;
  while (count < mostIds) {
    bytes += ids.data instanceof StringColumn ? ids.data.at(count).length + 4 : 8;
    if (bytes > excludedBytesMax) break;
    count += 1;
  }
  return count;
}

/** Where a question that begins with an instance must end, so that its lists stay within the limits. */
export function endOfListed(
  from: number,
  lists: readonly Tensor[] | undefined,
  { excludedIdsMax, excludedBytesMax }: Pick<RequestLimits, "excludedIdsMax" | "excludedBytesMax">,
): number {
  if (lists === undefined || lists.length < 2) return Infinity;
  let [ids, bytes] = [0, 0];
  for (let at = from; at < lists.length; at += 1) {
    ids += lists[at]!.data.length;
    bytes += keyBytes(lists[at]!);
    if (at > from && (ids > excludedIdsMax || bytes > excludedBytesMax)) return at;
  }
  return lists.length;
}
