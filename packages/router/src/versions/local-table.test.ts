// A table that came with its program gives the rows of the plain definition, for any keys.

import { StringColumn, stringTensor, tensor } from "@winnow/core";
import type { KeyedTable } from "@winnow/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createLocalTable } from "./local-table.ts";

const DIM = 3;
const KEYS = ["a", "b", "ba", ""];
const values = Float32Array.from({ length: (KEYS.length + 1) * DIM }, (_, at) => at + 0.5);
/** Row 0 is for keys that are unknown. */
const rowOf = (key: string): number => KEYS.indexOf(key) + 1;

function tableOf(keys: readonly string[]) {
  const none = stringTensor([]);
  const spec = {
    kind: "keyed",
    name: "users",
    dim: DIM,
    rows: KEYS.length + 1,
    keys: {
      kind: "vocabulary",
      keyDtype: "string",
      missing: { kind: "row", row: 0 },
      fixed: { keys: none, rows: [] },
    },
  } as unknown as KeyedTable;
  const partition = {
    keys: stringTensor(keys),
    keyRows: Uint32Array.from(keys, rowOf),
    globalRows: Uint32Array.from({ length: KEYS.length + 1 }, (_, row) => row),
  };
  return createLocalTable(spec, { partition, values });
}

test("rows of keys in any order, of which many follow equal ones", () => {
  const runs = fc.array(
    fc.tuple(fc.constantFrom(...KEYS, "c", "ab"), fc.integer({ min: 1, max: 9 })),
  );
  const table = tableOf(KEYS);
  fc.assert(
    fc.property(runs, fc.nat(3), (lists, cut) => {
      const keys = lists.flatMap(([key, count]) => Array.from({ length: count }, () => key));
      const before = Array.from({ length: cut }, () => "before");
      const column = StringColumn.fromText([...before, ...keys]).slice(cut, cut + keys.length);

      const rows = table.lookup({ dtype: "string", shape: [keys.length, 1], data: column });

      const expected = keys.flatMap((key) => [
        ...values.subarray(rowOf(key) * DIM, (rowOf(key) + 1) * DIM),
      ]);
      expect(rows).toEqual(tensor("float32", [keys.length, 1, DIM], Float32Array.from(expected)));
    }),
  );
});
