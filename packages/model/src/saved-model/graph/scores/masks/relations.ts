// What the comparisons of a graph say of two numbers, for conditions whose numbers are known when a model is read.

/** Whether two numbers are as an operation of this name wants them. */
export const RELATIONS: ReadonlyMap<string, (a: number, b: number) => boolean> = new Map([
  ["Equal", (a: number, b: number) => a === b],
  ["NotEqual", (a: number, b: number) => a !== b],
  ["Less", (a: number, b: number) => a < b],
  ["LessEqual", (a: number, b: number) => a <= b],
  ["Greater", (a: number, b: number) => a > b],
  ["GreaterEqual", (a: number, b: number) => a >= b],
]);
