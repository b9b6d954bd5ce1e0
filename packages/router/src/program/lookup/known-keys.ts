// Which values of one input of a model its vocabularies have: the keys are made as the model makes them, and asked for
// where the model looks them up. A value is unknown where no vocabulary has its key.

import type { KeyLookups, KeyVocabulary, Tensor } from "@winnow/core";
import { WinnowError, runProgram } from "@winnow/core";
import { checkKeys } from "../../limits/request-limits.ts";
import type { TableQueryParts } from "../../scatter/table-query.ts";
import { queryKnown } from "./lookup-query.ts";
import type { RequestRun } from "../request-run.ts";

/** Which values are known. */
export interface KnownKeys {
  /** By value; a value of which nobody could tell is taken to be known. */
  readonly isKnown: readonly boolean[];
  /** Whether all of it is known for certain: a worker of an older release does not tell. */
  readonly isTold: boolean;
}

/**
 * Asks for the input that `run` has, of which there is one value for each instance.
 * @throws WinnowError as a look-up does; FAILED_PRECONDITION where a value does not have one key
 */
export async function knownKeys(
  parts: TableQueryParts,
  run: RequestRun,
  { part, vocabularies }: KeyLookups,
): Promise<KnownKeys> {
  const { inputs, context, loaded } = run;
  const { signal } = context;
  const { tables } = loaded.program;
  const executors = { tables, vocabularies: loaded.vocabularies, ...NO_WORK };
  const keys = [...(await runProgram(part, { inputs, signal }, executors)).values()];
  const values = [...inputs.values()][0]!.data.length;
  const found = await Promise.all(
    vocabularies.map((vocabulary, at) => {
      const question = { vocabulary, keys: keys[at]! };
      if (keys[at]!.data.length === values) return knownIn(parts, run, question);
      const text = `Model ${run.version.model} makes ${keys[at]!.data.length} keys of ${values} values`;
      const why = "whether it knows them can be told where each has one";
      throw new WinnowError("FAILED_PRECONDITION", `${text}; ${why}`);
    }),
  );
  const told = found.filter((each) => each !== undefined);
  const isFound = Array.from({ length: values }, (_, at) => told.some((each) => each[at] === 1));
  if (told.length === found.length) return { isKnown: isFound, isTold: true };
  return { isKnown: isFound.map(() => true), isTold: isFound.every(Boolean) };
}

async function knownIn(
  parts: TableQueryParts,
  run: RequestRun,
  { vocabulary, keys }: { readonly vocabulary: KeyVocabulary; readonly keys: Tensor },
): Promise<ArrayLike<number> | undefined> {
  const { loaded, context } = run;
  if (vocabulary.kind === "vocabulary") {
    const positions = loaded.vocabularies[vocabulary.vocabulary]!.positionsOf(keys);
    return positions.map((position) => Number(position >= 0));
  }
  const table = loaded.program.tables[vocabulary.table];
  if (table?.kind !== "keyed") throw new RangeError("keys of a table that is not looked up");
  checkKeys(table.name, keys, parts.settings);
  const local = loaded.localTables.get(vocabulary.table);
  if (local !== undefined) return local.known(keys);
  const { signal } = context;
  const lookup = { tableNumber: vocabulary.table, table, keys, signal };
  return await context.stage("lookup", (span) => queryKnown(parts, { ...lookup, span }, run));
}

/** The part of a signature that makes keys asks nobody. */
const NO_WORK = { lookup: refuse, dense: refuse, topK: refuse, sums: refuse } as const;

function refuse(): never {
  throw new RangeError("a part that makes keys has steps of arithmetic alone");
}
