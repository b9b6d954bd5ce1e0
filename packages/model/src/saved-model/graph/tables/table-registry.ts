// The embedding tables of a version, collected from all its signatures. Signatures that look up or
// search the same rows in the same way share one table, so its rows are placed and held once.

import { isDeepStrictEqual } from "node:util";
import { WinnowError, partitionCountOf } from "@winnow/core";
import type { AttributeColumn, CandidateTable, KeyedTable, TableKeys, Tensor } from "@winnow/core";
import { addedValues, tensorsBeside, textOfStored } from "../../partitions/stored-table.ts";
import type {
  RowComputation,
  RowDerivation,
  RowFactor,
  StoredTable,
  StoredTensor,
} from "../../partitions/stored-table.ts";
import type { VersionFiles } from "../../version-files.ts";
import type { GraphValue } from "../graph-value.ts";
import { maskColumn } from "./mask-columns.ts";

/**
 * The matrix that a table consists of: `[rows, dim]`, of float32 or what is read as float32; as
 * stored unless it is derived.
 */
export interface StoredRows {
  readonly stored: StoredTensor;
  readonly rows: number;
  readonly dim: number;
  readonly derivation?: RowDerivation | undefined;
}

/** What the keys of a keyed table are, and the vocabulary that a fused lookup needs. */
export interface WantedKeys {
  readonly keys: TableKeys;
  readonly vocabulary: { readonly keys: Tensor; readonly values: Tensor } | undefined;
}

/** Identifiers of a candidate table. */
export interface StoredIds {
  readonly stored: StoredTensor;
  readonly dtype: "string" | "int32" | "int64";
}

/** Collects tables; a table's number is its position in the program. */
export class TableRegistry {
  readonly #files: VersionFiles;
  readonly #tables: StoredTable[] = [];
  readonly #names = new Map<string, number>();
  readonly #constants: { readonly stored: StoredTensor; readonly constant: StoredTensor }[] = [];
  readonly #masks: { readonly stored: StoredTensor; readonly column: AttributeColumn }[] = [];

  constructor(files: VersionFiles) {
    this.#files = files;
  }

  /** All tables so far, by number. */
  get tables(): readonly StoredTable[] {
    return this.#tables;
  }

  /** The number of a keyed table, which may exist already. */
  keyed(rows: StoredRows, { keys, vocabulary }: WantedKeys): number {
    const found = this.#tables.findIndex(
      ({ spec, rows: stored, vocabulary: known }) =>
        spec.kind === "keyed" &&
        isSame(stored, rows.stored) &&
        areSameKeys(spec.keys, keys) &&
        areSameEntries(known, vocabulary),
    );
    if (found >= 0) return found;
    const spec: KeyedTable = { kind: "keyed", ...this.#shapeOf(rows, undefined), keys };
    return this.#tables.push({ spec, rows: rows.stored, ids: undefined, vocabulary }) - 1;
  }

  /**
   * The number of a candidate table. Without ids, any table over these rows matches. With ids, a
   * table with the same ids matches, or one without ids, which is given these.
   */
  candidate(rows: StoredRows, ids: StoredIds | undefined): number {
    const found = this.#tables.findIndex(
      ({ spec, rows: stored, derivation, ids: known }) =>
        spec.kind === "candidate" &&
        isSame(stored, rows.stored) &&
        areSameDerivations(derivation, rows.derivation) &&
        (ids === undefined || known === undefined || isSame(known, ids.stored)),
    );
    if (found >= 0 && (ids === undefined || this.#tables[found]?.ids !== undefined)) return found;
    const shape =
      found < 0
        ? this.#shapeOf(rows, ids)
        : { ...this.#shapeOf(rows, ids), name: this.#nameAt(found) };
    const { stored, derivation } = rows;
    const added = addedValues(derivation);
    const spec: CandidateTable = {
      kind: "candidate",
      ...shape,
      idDtype: ids?.dtype,
      ...(added > 0 && { added }),
    };
    const table = { spec, rows: stored, derivation, ids: ids?.stored, vocabulary: undefined };
    if (found < 0) return this.#tables.push(table) - 1;
    const { masks = [] } = this.#tables[found]!;
    this.#tables[found] = table;
    this.#addMasks(found, masks);
    return found;
  }

  /** Whether a table that is searched has its rows from this tensor. */
  isSearched(stored: StoredTensor): boolean {
    return this.#tables.some(({ spec, rows }) => spec.kind === "candidate" && isSame(rows, stored));
  }

  /** Whether neighbouring rows of a tensor can be read by themselves; whole tensors always can. */
  canRead(stored: StoredTensor): boolean {
    if (stored.kind !== "rows") return true;
    try {
      return this.#files.sourceOf(stored).checksum !== undefined;
    } catch (error) {
      if (error instanceof WinnowError) return false;
      throw error;
    }
  }

  /** The content of a stored tensor as a constant; the same for the same one. */
  asConstant(stored: StoredTensor): StoredTensor {
    const known = this.#constants.find((each) => isSame(each.stored, stored))?.constant;
    if (known !== undefined) return known;
    const tensor = this.#files.contentOf(stored);
    const constant: StoredTensor = { kind: "constant", name: nameOf(stored), tensor };
    this.#constants.push({ stored, constant });
    return constant;
  }

  /** Whether these are the identifiers of a table. */
  hasIds(table: number, { stored }: StoredIds): boolean {
    const known = this.#tables[table]?.ids;
    return known !== undefined && isSame(known, stored);
  }

  /**
   * The name of the column of a candidate table that holds this vector; it may exist already. `undefined`
   * where the vector cannot be one.
   */
  mask(table: number, stored: StoredTensor): string | undefined {
    let known = this.#masks.find((each) => isSame(each.stored, stored))?.column;
    if (known === undefined) {
      const column = maskColumn(`mask ${this.#masks.length}`, this.#files.contentOf(stored));
      if (column === undefined) return undefined;
      this.#masks.push({ stored, column });
      known = column;
    }
    this.#addMasks(table, [known]);
    return known.spec.name;
  }

  /** Gives a table the columns of another one over the same rows. */
  copyMasks(from: number, to: number): void {
    this.#addMasks(to, this.#tables[from]?.masks ?? []);
  }

  #addMasks(number: number, columns: readonly AttributeColumn[]): void {
    const table = this.#tables[number];
    if (table?.spec.kind !== "candidate") throw new RangeError(`table ${number} is not searched`);
    const own = table.masks ?? [];
    const masks = [...own, ...columns.filter((column) => !own.includes(column))];
    if (masks.length === own.length) return;
    const spec = { ...table.spec, masks: masks.map((column) => column.spec) };
    this.#tables[number] = { ...table, spec, masks };
  }

  #nameAt(table: number): string {
    return this.#tables[table]?.spec.name ?? "";
  }

  #shapeOf(
    { stored, rows, dim, derivation }: StoredRows,
    ids: StoredIds | undefined,
  ): Omit<KeyedTable, "kind" | "keys"> {
    const beside = tensorsBeside(derivation).map((each) => each.stored);
    const sources = [stored, ...(ids === undefined ? [] : [ids.stored]), ...beside];
    return {
      name: this.#uniqueName(nameOf(stored)),
      rows,
      dim,
      partitions: partitionCountOf({ rows, dim }, this.#files.partitionBytesMax),
      sources: sources.map((source) => this.#files.sourceOf(source)),
    };
  }

  /** Two tables over one variable (searched and looked up, say) need two names. */
  #uniqueName(base: string): string {
    const count = (this.#names.get(base) ?? 0) + 1;
    this.#names.set(base, count);
    return count === 1 ? base : `${base}#${count}`;
  }
}

/** The matrix that a value holds, if it can be a table. */
export function storedRowsOf(source: GraphValue): StoredRows | undefined {
  const [rows, dim, ...rest] = source.shape ?? [];
  const isMatrix = rows !== undefined && dim !== undefined && rest.length === 0;
  if (source.stored === undefined || source.dtype !== "float32" || !isMatrix) return undefined;
  return rows > 0 && dim > 0 ? { stored: source.stored, rows, dim } : undefined;
}

/** The key of a variable, the node of a constant; of several, the first and how many more. */
export function nameOf(stored: StoredTensor): string {
  switch (stored.kind) {
    case "bundle":
      return stored.key.replace(/\/\.ATTRIBUTES\/VARIABLE_VALUE$/, "");
    case "constant":
      return stored.name;
    case "concatenated":
      return `${nameOf(stored.parts[0]!)}+${stored.parts.length - 1}`;
    case "rows":
      return `${nameOf(stored.of)}[${stored.firstRow}:${stored.firstRow + stored.rows}]`;
  }
}

/**
 * Constants are the same if they are one tensor object, as a function's body is read once, or if
 * they hold the same values, as two results of one computation on constants do.
 */
function isSame(a: StoredTensor, b: StoredTensor): boolean {
  if (a.kind === "constant") {
    if (b.kind !== "constant") return false;
    const [first, second] = [a.tensor, b.tensor];
    return first.shape.join() === second.shape.join() && areSameValues(first, second);
  }
  if (a.kind === "bundle") return b.kind === "bundle" && textOfStored(a) === textOfStored(b);
  if (a.kind === "rows") {
    const areEqual = b.kind === "rows" && a.firstRow === b.firstRow && a.rows === b.rows;
    return areEqual && isSame(a.of, b.of);
  }
  if (b.kind !== "concatenated" || a.parts.length !== b.parts.length) return false;
  return a.parts.every((part, index) => isSame(part, b.parts[index]!));
}

function areSameDerivations(a: RowDerivation | undefined, b: RowDerivation | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    areArrangedAlike(a, b) &&
    areSameComputations(a.computed, b.computed) &&
    areSameTensors(a.appended, b.appended) &&
    areSameFactors(a.factors ?? [], b.factors ?? [])
  );
}

function areArrangedAlike(a: RowDerivation, b: RowDerivation): boolean {
  return (
    a.isByColumn === b.isByColumn &&
    a.firstColumn === b.firstColumn &&
    (a.hasSquares ?? false) === (b.hasSquares ?? false) &&
    JSON.stringify(a.normalisation) === JSON.stringify(b.normalisation)
  );
}

/** Whether the same is computed of each row. */
export function areSameComputations(
  a: RowComputation | undefined,
  b: RowComputation | undefined,
): boolean {
  if (a === undefined || b === undefined) return a === b;
  const [left, right] = [a, b].map(({ beside }) => beside.map(({ stored }) => stored));
  return areSameTensors(left!, right!) && isDeepStrictEqual(a.steps, b.steps);
}

function areSameTensors(a: readonly StoredTensor[], b: readonly StoredTensor[]): boolean {
  return a.length === b.length && a.every((stored, position) => isSame(stored, b[position]!));
}

function areSameFactors(a: readonly RowFactor[], b: readonly RowFactor[]): boolean {
  const [left, right] = [a, b].map((factors) => factors.map(({ stored }) => stored));
  return (
    areSameTensors(left!, right!) &&
    a.every(({ isDivisor, appended }, position) => {
      const other = b[position]!;
      return isDivisor === other.isDivisor && appended === other.appended;
    })
  );
}

function areSameKeys(a: TableKeys, b: TableKeys): boolean {
  if (a.kind === "row" || b.kind === "row") return a.kind === b.kind;
  return (
    a.keyDtype === b.keyDtype &&
    JSON.stringify(a.missing) === JSON.stringify(b.missing) &&
    areSameValues(a.fixed.keys, b.fixed.keys) &&
    JSON.stringify(a.fixed.rows) === JSON.stringify(b.fixed.rows)
  );
}

function areSameEntries(a: StoredTable["vocabulary"], b: StoredTable["vocabulary"]): boolean {
  if (a === undefined || b === undefined) return a === b;
  return areSameValues(a.keys, b.keys) && areSameValues(a.values, b.values);
}

function areSameValues(a: Tensor, b: Tensor): boolean {
  if (a === b) return true;
  if (a.dtype !== b.dtype || a.data.length !== b.data.length) return false;
  if (a.dtype === "string" && b.dtype === "string") {
    return (
      areSameNumbers(a.data.offsets, b.data.offsets) && areSameNumbers(a.data.bytes, b.data.bytes)
    );
  }
  return areSameNumbers(a.data as ArrayLike<number | bigint>, b.data as ArrayLike<number | bigint>);
}

function areSameNumbers(a: ArrayLike<number | bigint>, b: ArrayLike<number | bigint>): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index += 1) if (a[index] !== b[index]) return false;
  return true;
}
