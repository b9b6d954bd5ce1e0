// The one way in which JSON text is refused: RapidJSON's sentence and the byte where it stopped.

/** Bytes that are no JSON in RapidJSON's dialect. */
export class JsonSyntaxError extends Error {
  /** Position in the body, from 0. */
  readonly offset: number;

  constructor(reason: string, offset: number) {
    super(reason);
    this.name = "JsonSyntaxError";
    this.offset = offset;
  }
}
