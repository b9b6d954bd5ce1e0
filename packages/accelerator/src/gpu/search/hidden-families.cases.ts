// Tables whose best rows lie where the bounds of the GPU's filter are weakest. Each was seen to be
// answered wrongly when one part of the bounds is left out (the rest of the rows' codes, the rest
// of the query's, the error of float32, the slack). Flushed floats are the exception: software
// devices keep subnormal floats.

import { seededRandom } from "../../cases/exactness.cases.ts";
import type { SearchProblem } from "../../cases/exactness.cases.ts";

/** Values from functions of row (or query) and dimension. */
function madeProblem(
  size: { readonly rows: number; readonly dim: number; readonly k: number },
  tableValue: (row: number, j: number) => number,
  queryValue: (query: number, j: number) => number,
): SearchProblem {
  const { rows, dim, k } = size;
  const fill = (count: number, value: typeof tableValue): Float32Array =>
    Float32Array.from({ length: count * dim }, (_, at) => value(Math.floor(at / dim), at % dim));
  return { dim, k, table: fill(rows, tableValue), vectors: fill(4, queryValue) };
}

const SIZE = { rows: 4000, dim: 20, k: 10 };
const sign = (query: number, j: number): number => ((query + j * j) % 3 === 0 ? -1 : 1);
const isHidden = (row: number): boolean => Math.floor(row / 128) % 4 === 1;

/** Every family, by name. */
export const HIDDEN_FAMILIES: Readonly<Record<string, () => SearchProblem>> = {
  "the best rows are in the rest of their codes": () => {
    const random = seededRandom(11);
    return madeProblem(
      SIZE,
      (row, j) => {
        if (!isHidden(row)) return j === 0 ? 0 : sign(row % 4, j) * (0.8 + 0.2 * random());
        return j === 0 ? 1000 : sign(row % 4, j) * (1 + random());
      },
      (query, j) => (j === 0 ? 0 : sign(query, j)),
    );
  },
  "the best rows are in the rest of the query's codes": () => {
    const random = seededRandom(12);
    return madeProblem(
      SIZE,
      (row, j) => {
        if (j === 0) return 0;
        if (j === 1) return isHidden(row) ? -1 : 1;
        return random() < (isHidden(row) ? 0.02 : 0.5) ? -sign(row % 4, j) : sign(row % 4, j);
      },
      (query, j) => (j === 0 ? 1000 : j === 1 ? 4.2 : sign(query, j) * 3.9),
    );
  },
  "scores are smaller than the errors of float32": () => {
    const random = seededRandom(13);
    let last = 0;
    return madeProblem(
      { ...SIZE, rows: 2000 },
      (_row, j) => {
        if (j >= 18) return 1e-6 * (random() - 0.5);
        if (j % 2 === 0) last = 1000 * (random() - 0.5);
        return last;
      },
      (query, j) => (j < 18 ? (j % 2 === 0 ? 1 : -1) : 1 + query),
    );
  },
  "rows are too small for a float that a device may flush": () => {
    const random = seededRandom(14);
    return madeProblem(
      SIZE,
      (row, j) => (j === 0 ? 2 ** -120 * (row % 2) : 2 ** -128 * (random() - 0.5)),
      (_query, j) => (j === 0 ? 2 ** -20 : 1),
    );
  },
  "scores are rounded to a subnormal float32": () => {
    const random = seededRandom(15);
    const small = (): number => (random() - 0.5) * 2 ** -73;
    return madeProblem(SIZE, small, small);
  },
};
