// The error for JSON text that cannot be read: RapidJSON's message and the byte where reading stopped.

/** Bytes that are not JSON in RapidJSON's dialect. */
export class JsonSyntaxError extends Error {
  /** Position in the body, from 0. */
  readonly offset: number;

  constructor(reason: string, offset: number) {
    super(reason);
    this.name = "JsonSyntaxError";
    this.offset = offset;
  }
}
