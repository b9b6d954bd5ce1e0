// Checks a filter against the attributes of a table: names must exist, values must have the attribute's type.
// The result is canonical: most ways to write a filter become the same text, so that a filter that a worker
// has evaluated serves the others too.

import { WinnowError, excerpt } from "../errors/errors.ts";
import { nearestName } from "../errors/nearest-name.ts";
import type { AttributeSpec, AttributeType } from "./attribute-column.ts";
import { heldInteger } from "./filter.ts";
import type { Filter, FilterTest, FilterValue } from "./filter.ts";
import { filterText } from "./filter-text.ts";
import { parseTimestamp } from "./timestamp.ts";

/** The canonical form of a filter. @throws WinnowError INVALID_ARGUMENT naming attribute and value */
export function bindFilter(filter: Filter, attributes: readonly AttributeSpec[]): Filter {
  return canonical(bound(filter, new Map(attributes.map((spec) => [spec.name, spec]))));
}

/** The attribute with this name. @throws WinnowError INVALID_ARGUMENT suggesting the nearest name */
export function attributeNamed(
  name: string,
  attributes: ReadonlyMap<string, AttributeSpec>,
): AttributeSpec {
  const spec = attributes.get(name);
  if (spec !== undefined) return spec;
  const known = [...attributes.keys()];
  const nearest = nearestName(name, known);
  const all = excerpt(known.toSorted().join(", "));
  const hint = nearest === undefined ? `they have ${all}` : `did you mean "${excerpt(nearest)}"?`;
  const text = `Items of this model have no attribute "${excerpt(name)}"; ${hint}`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function bound(filter: Filter, attributes: ReadonlyMap<string, AttributeSpec>): Filter {
  if (filter.kind === "not") return { kind: "not", of: bound(filter.of, attributes) };
  if (filter.kind !== "test") {
    return { kind: filter.kind, of: filter.of.map((each) => bound(each, attributes)) };
  }
  const { attribute, is, values, onList } = filter;
  const spec = attributeNamed(attribute, attributes);
  if (onList === true && !spec.isList) {
    throw refused(spec, "is no list; $contains and $all are for lists");
  }
  const isRange = is !== "in" && is !== "exists";
  if (isRange && spec.type === "boolean") throw refused(spec, "is boolean and has no order");
  return { kind: "test", attribute, is, values: values.map((value) => typed(spec, value)) };
}

/** A value in the form of columns of the attribute's type. */
function typed(spec: AttributeSpec, value: FilterValue): FilterValue {
  const found = value === null ? null : FORMS[spec.type](value);
  if (found !== undefined) return found;
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  const wanted =
    spec.type === "timestamp" ? 'a time such as "2024-01-31T12:00:00Z"' : `of type ${spec.type}`;
  throw refused(spec, `cannot be compared with ${excerpt(text)}: its values are ${wanted}`);
}

type Form = (value: Exclude<FilterValue, null>) => FilterValue | undefined;

const numeric: Form = (value) => {
  if (typeof value === "bigint") {
    const found = smallest(value);
    return found === Infinity || found === -Infinity ? undefined : found;
  }
  return typeof value === "number" ? value : undefined;
};

/** Converts a value to the form of a column's type; `undefined` for a value of another type. */
const FORMS: Readonly<Record<AttributeType, Form>> = {
  string: (value) => (typeof value === "string" ? value : undefined),
  boolean: (value) => (typeof value === "boolean" ? value : undefined),
  integer: numeric,
  float: numeric,
  timestamp: (value) => (typeof value === "string" ? parseTimestamp(value) : undefined),
};

function smallest(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : heldInteger(value);
}

function refused({ name }: AttributeSpec, what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Attribute "${excerpt(name)}" ${what}`);
}

function canonical(filter: Filter): Filter {
  switch (filter.kind) {
    case "test":
      return filter.is === "in" ? { ...filter, values: distinct(filter) } : filter;
    case "not": {
      const of = canonical(filter.of);
      return of.kind === "not" ? of.of : { kind: "not", of };
    }
    case "and":
    case "or": {
      const { kind } = filter;
      const flat = filter.of
        .map(canonical)
        .flatMap((each) => (each.kind === kind ? each.of : [each]));
      const byText = new Map(flat.map((each) => [filterText(each), each]));
      const of = [...byText].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
      return of.length === 1 ? of[0]! : { kind, of };
    }
  }
}

/** The values of a test, each once, in a fixed order. */
function distinct({ values }: FilterTest): readonly FilterValue[] {
  const byText = new Map(values.map((value) => [`${typeof value} ${String(value)}`, value]));
  return [...byText].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, value]) => value);
}
