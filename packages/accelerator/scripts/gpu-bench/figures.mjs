// Numbers as they are reported.

/** The middle of a list. */
export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

/** Four digits that count. */
export const rounded = (value) => Number(Number(value).toPrecision(4));
