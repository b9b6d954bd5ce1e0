// What goes before a request, against a list of objects that is looked through.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { AdmittedRequest } from "./admitted-requests.ts";
import { AdmittedRequests } from "./admitted-requests.ts";

const request = fc.record({
  rows: fc.nat(5000),
  dueMs: fc.nat(20),
  deadlineMs: fc.nat(1000),
  isSmall: fc.boolean(),
});
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("add" as const), request }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("answered" as const, "delete" as const),
      which: fc.nat(1000),
      rows: fc.nat(6000),
    }),
  },
);

test("requests and what goes before another are those of a plain list", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400, size: "max" }), request, (steps, wanted) => {
      const requests = new AdmittedRequests();
      const open = new Map<
        number,
        { -readonly [K in keyof AdmittedRequest]: AdmittedRequest[K] }
      >();
      for (const next of steps) {
        if (next.kind === "add") {
          open.set(requests.add(next.request), { ...next.request });
          continue;
        }
        const [place, found] = [...open][next.which % Math.max(1, open.size)] ?? [];
        if (place === undefined) continue;
        if (next.kind === "answered") {
          requests.answered(place, next.rows);
          found!.rows = Math.max(0, found!.rows - next.rows);
        } else {
          requests.delete(place);
          open.delete(place);
        }
      }
      const all = [...open.values()];
      const sum = (list: typeof all): number => list.reduce((total, { rows }) => total + rows, 0);
      const before = all.filter(
        ({ dueMs, isSmall }) => dueMs <= wanted.dueMs && (isSmall || !wanted.isSmall),
      );
      const lastDeadlineMs = Math.max(0, ...before.map(({ deadlineMs }) => deadlineMs));
      expect([requests.size, requests.rows]).toEqual([open.size, sum(all)]);
      expect(requests.before(wanted)).toEqual({ rows: sum(before), lastDeadlineMs });
    }),
  );
});
