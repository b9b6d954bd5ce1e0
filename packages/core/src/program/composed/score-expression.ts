// Expressions over the named scores of a candidate: `0.7 * ctr + 0.3 * log(max(watch, 1)) - score / 10`. A
// person writes them, so errors name their place. They are stored as steps in the order of execution (reverse
// Polish notation), so a program that holds one is checked by counting.
//
//   sum     = product (("+" | "-") product)*
//   product = unary (("*" | "/") unary)*
//   unary   = "-" unary | number | name | function "(" sum ("," sum)* ")" | "(" sum ")"

import type { HeaderReader } from "../header-reader.ts";
import { listOf, oneOf, read, refuse, text } from "../header-reader.ts";

type Operation =
  | "add"
  | "subtract"
  | "multiply"
  | "divide"
  | "negate"
  | "log"
  | "exp"
  | "min"
  | "max"
  | "clip";

interface OperationSpec {
  /** Number of operands. */
  readonly takes: number;
  readonly of: (a: number, b: number, c: number) => number;
}

/** The operations of expressions. */
const OPERATIONS: Readonly<Record<Operation, OperationSpec>> = {
  add: { takes: 2, of: (a, b) => a + b },
  subtract: { takes: 2, of: (a, b) => a - b },
  multiply: { takes: 2, of: (a, b) => a * b },
  divide: { takes: 2, of: (a, b) => a / b },
  negate: { takes: 1, of: (a) => -a },
  log: { takes: 1, of: (a) => Math.log(a) },
  exp: { takes: 1, of: (a) => Math.exp(a) },
  min: { takes: 2, of: (a, b) => Math.min(a, b) },
  max: { takes: 2, of: (a, b) => Math.max(a, b) },
  clip: { takes: 3, of: (value, least, most) => Math.min(Math.max(value, least), most) },
};

/** A step: pushes a value, or replaces some values on the stack by their result. */
type ScoreStep =
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "apply"; readonly operation: Operation };

/** Steps that leave one value. */
export type ScoreExpression = readonly ScoreStep[];

/** Steps of one expression, at most. */
const SCORE_STEPS_MAX = 256;
const DEPTH_MAX = 32;
const FUNCTIONS = ["log", "exp", "min", "max", "clip"] as const;
const TOKEN =
  /\s*(?:(?<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?<name>[A-Za-z_]\w*)|(?<sign>[-+*/(),]))/y;

/** Whether an expression can use a name: letters, digits and `_`, and not the name of a function. */
export function isScoreName(name: string): boolean {
  return /^[A-Za-z_]\w*$/.test(name) && !isFunction(name);
}

/** Parses an expression over these names, or gives what is wrong with it. */
export function parseScore(
  source: string,
  names: ReadonlySet<string>,
): { readonly expression: ScoreExpression } | { readonly fault: string } {
  try {
    return { expression: new Parser(source, names).whole() };
  } catch (error) {
    if (error instanceof ScoreFault) return { fault: error.message };
    throw error;
  }
}

/** The value for one candidate, in float64; NaN and infinities follow IEEE 754. */
export function evaluateScore(
  expression: ScoreExpression,
  valueOf: (name: string) => number,
): number {
  const stack: number[] = [];
  for (const step of expression) {
    if (step.kind === "number") stack.push(step.value);
    else if (step.kind === "name") stack.push(valueOf(step.name));
    else {
      const { takes, of } = OPERATIONS[step.operation];
      const [a = NaN, b = NaN, c = NaN] = stack.splice(stack.length - takes);
      stack.push(of(a, b, c));
    }
  }
  return stack[0] ?? NaN;
}

/** An expression as text; a number may be spelled differently from the original. */
export function scoreText(expression: ScoreExpression): string {
  const stack: { readonly text: string; readonly binds: number }[] = [];
  for (const step of expression) {
    if (step.kind === "number") stack.push({ text: String(step.value), binds: BINDS_MAX });
    else if (step.kind === "name") stack.push({ text: step.name, binds: BINDS_MAX });
    else {
      const { takes } = OPERATIONS[step.operation];
      stack.push(applied(step.operation, stack.splice(stack.length - takes)));
    }
  }
  return stack[0]?.text ?? "";
}

/** How tightly the parts of a text bind: sums, products, and single values. */
const BINDS_MAX = 3;
const SIGNS: Partial<
  Readonly<Record<Operation, { readonly sign: string; readonly binds: number }>>
> = {
  add: { sign: "+", binds: 1 },
  subtract: { sign: "-", binds: 1 },
  multiply: { sign: "*", binds: 2 },
  divide: { sign: "/", binds: 2 },
};

interface Written {
  readonly text: string;
  readonly binds: number;
}

function applied(operation: Operation, values: readonly Written[]): Written {
  const inBrackets = ({ text: inner, binds }: Written, least: number): string =>
    binds < least ? `(${inner})` : inner;
  const infix = SIGNS[operation];
  if (infix !== undefined) {
    const [a, b] = values;
    // The second operand needs brackets where the first would not: a - (b - c).
    const text = `${inBrackets(a!, infix.binds)} ${infix.sign} ${inBrackets(b!, infix.binds + 1)}`;
    return { text, binds: infix.binds };
  }
  if (operation === "negate")
    return { text: `-${inBrackets(values[0]!, BINDS_MAX)}`, binds: BINDS_MAX };
  const list = values.map(({ text: inner }) => inner).join(", ");
  return { text: `${operation}(${list})`, binds: BINDS_MAX };
}

/** Names that an expression uses. */
export function namesInScore(expression: ScoreExpression): readonly string[] {
  return expression.flatMap((step) => (step.kind === "name" ? [step.name] : []));
}

/** Reads an expression of an encoded program. */
export const scoreReader: HeaderReader<ScoreExpression> = (from) => {
  const steps = listOf(stepReader)(from);
  let depth = 0;
  for (const step of steps) {
    const taken = step.kind === "apply" ? OPERATIONS[step.operation].takes : 0;
    if (depth < taken) throw refuse(from, "steps that find their values");
    depth += 1 - taken;
  }
  if (depth === 1 && steps.length <= SCORE_STEPS_MAX) return steps;
  throw refuse(from, `at most ${SCORE_STEPS_MAX} steps that leave one value`);
};

const stepReader: HeaderReader<ScoreStep> = (from) => {
  const kind = read(from, "kind", oneOf("number", "name", "apply"));
  if (kind === "name") return { kind, name: read(from, "name", text) };
  if (kind === "number") return { kind, value: read(from, "value", finite) };
  const operations = Object.keys(OPERATIONS) as [Operation, ...Operation[]];
  return { kind, operation: read(from, "operation", oneOf(...operations)) };
};

const finite: HeaderReader<number> = (from) => {
  if (typeof from.value === "number" && Number.isFinite(from.value)) return from.value;
  throw refuse(from, "a finite number");
};

function isFunction(name: string): name is (typeof FUNCTIONS)[number] {
  return (FUNCTIONS as readonly string[]).includes(name);
}

class ScoreFault extends Error {}

interface Token {
  readonly kind: "number" | "name" | "sign" | "end";
  readonly text: string;
  /** Position, counted from 1. */
  readonly at: number;
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #names: ReadonlySet<string>;
  readonly #steps: ScoreStep[] = [];
  #next = 0;
  #depth = 0;

  constructor(source: string, names: ReadonlySet<string>) {
    this.#tokens = tokensOf(source);
    this.#names = names;
  }

  whole(): ScoreExpression {
    this.#sum();
    const { kind } = this.#token;
    if (kind !== "end") throw this.#fault("an operator or the end");
    return this.#steps;
  }

  get #token(): Token {
    return this.#tokens[this.#next]!;
  }

  #sum(): void {
    this.#depth += 1;
    if (this.#depth > DEPTH_MAX) throw new ScoreFault(`is nested deeper than ${DEPTH_MAX}`);
    this.#product();
    for (let sign = this.#take("+", "-"); sign !== ""; sign = this.#take("+", "-")) {
      this.#product();
      this.#apply(sign === "+" ? "add" : "subtract");
    }
    this.#depth -= 1;
  }

  #product(): void {
    this.#unary();
    for (let sign = this.#take("*", "/"); sign !== ""; sign = this.#take("*", "/")) {
      this.#unary();
      this.#apply(sign === "*" ? "multiply" : "divide");
    }
  }

  #unary(): void {
    let negations = 0;
    while (this.#take("-") !== "") negations += 1;
    this.#value();
    for (; negations > 0; negations -= 1) this.#apply("negate");
  }

  #value(): void {
    const { kind, text: word } = this.#token;
    if (kind === "number") {
      if (!Number.isFinite(Number(word))) throw this.#fault("a smaller number");
      this.#next += 1;
      this.#add({ kind, value: Number(word) });
    } else if (kind === "name" && isFunction(word)) this.#call(word);
    else if (kind === "name" && this.#names.has(word)) {
      this.#next += 1;
      this.#add({ kind, name: word });
    } else if (kind === "name") {
      throw this.#fault(`one of ${[...this.#names, ...FUNCTIONS].join(", ")}`);
    } else {
      if (this.#take("(") === "") throw this.#fault("a number, a name or (");
      this.#sum();
      this.#needs(")");
    }
  }

  #call(name: (typeof FUNCTIONS)[number]): void {
    this.#next += 1;
    this.#needs("(");
    for (let at = 1; at <= OPERATIONS[name].takes; at += 1) {
      if (at > 1) this.#needs(",");
      this.#sum();
    }
    this.#needs(")");
    this.#apply(name);
  }

  #take(...signs: readonly string[]): string {
    const { kind, text: sign } = this.#token;
    if (kind !== "sign" || !signs.includes(sign)) return "";
    this.#next += 1;
    return sign;
  }

  #needs(sign: string): void {
    if (this.#take(sign) === "") throw this.#fault(sign);
  }

  #apply(operation: Operation): void {
    this.#add({ kind: "apply", operation });
  }

  #add(step: ScoreStep): void {
    this.#steps.push(step);
    if (this.#steps.length <= SCORE_STEPS_MAX) return;
    throw new ScoreFault(`has more than ${SCORE_STEPS_MAX} numbers, names and operations`);
  }

  #fault(expected: string): ScoreFault {
    const { kind, text: word, at } = this.#token;
    const found = kind === "end" ? "the end" : `"${word}"`;
    return new ScoreFault(`has ${found} at character ${at}, where ${expected} belongs`);
  }
}

function tokensOf(source: string): readonly Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (source.slice(at).trim() !== "") {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(source);
    if (found?.groups === undefined) {
      const blank = /^\s*/.exec(source.slice(at))?.[0].length ?? 0;
      const word = source.slice(at + blank, at + blank + 1);
      throw new ScoreFault(
        `has "${word}" at character ${at + blank + 1}, which means nothing here`,
      );
    }
    const { number, name, sign = "" } = found.groups;
    const word = number ?? name ?? sign;
    const kind = number !== undefined ? "number" : name === undefined ? "sign" : "name";
    tokens.push({ kind, text: word, at: found.index + found[0].length - word.length + 1 });
    at = TOKEN.lastIndex;
  }
  return [...tokens, { kind: "end", text: "", at: source.length + 1 }];
}
