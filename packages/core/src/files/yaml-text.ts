// What YAML that people write may not be, for the two packages that read some: settings, pipelines and experiments. The
// package `yaml` itself reads deep texts by a recursion that uses up the stack, and a regular expression that is compiled
// at its end ends the process; and it compares each key of a map with all others.

/** Depth of lists and maps: more than any setting, or field that takes any value, needs. */
const NESTING_MAX = 128;

/** `Parser` of `yaml`. */
interface TokenParser<Token> {
  /** Lists and maps that are open. */
  readonly stack: readonly unknown[];
  readonly offset: number;
  next(lexeme: string): Iterable<Token>;
  end(): Iterable<Token>;
}

/** The tokens of a text. @throws what `refusal` makes where lists and maps are nested too deep */
export function yamlTokens<Token>(
  lexemes: Iterable<string>,
  parser: TokenParser<Token>,
  refusal: (offset: number, fault: string) => Error,
): Token[] {
  const tokens: Token[] = [];
  for (const lexeme of lexemes) {
    tokens.push(...parser.next(lexeme));
    if (parser.stack.length > NESTING_MAX) {
      throw refusal(parser.offset, `nests lists and maps deeper than ${NESTING_MAX} levels`);
    }
  }
  tokens.push(...parser.end());
  return tokens;
}

/** `Scalar` of `yaml`: a value, and where its text begins and ends. */
interface Scalar {
  readonly value: unknown;
  readonly range?: readonly number[] | null | undefined;
}

/** The first key of a map that stands in it already; `undefined` if all differ. */
export function repeatedKey<Key extends Scalar>(
  pairs: readonly { readonly key: unknown }[],
  isScalar: (key: unknown) => key is Key,
): Key | undefined {
  const seen = new Set<unknown>();
  for (const { key } of pairs) {
    if (!isScalar(key)) continue;
    if (seen.has(key.value)) return key;
    seen.add(key.value);
  }
  return undefined;
}
