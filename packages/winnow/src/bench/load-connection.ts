// What the generator needs of a connection, whatever is spoken on it: one request under way, made beforehand as
// bytes, and an answer of which no more is read than whether it is one.

/** An answer, or why there was none. */
export interface LoadAnswer {
  /** `200`, `"OK"`, `"UNAVAILABLE"`; 0 where there was no answer. */
  readonly status: number | string;
  readonly isOk: boolean;
  /** Why there was no answer, or what a refusal says; "" of an answer that is well. */
  fault(): string;
  /** What is answered: JSON, or a message. */
  body(): Buffer;
  /** A header, or metadata, by its name in lower case. */
  header(name: string): string | undefined;
}

/** One connection with one request under way; it connects when it is first used, and again after a fault. */
export interface LoadConnection {
  /** Sends a request; `done` is called once. Only after that the next may be sent. */
  send(request: Buffer, done: (answer: LoadAnswer) => void): void;
  /** Ends the connection; a request under way fails with this reason. */
  end(fault: string): void;
}

/** No answer, and why. */
export function noAnswer(fault: string): LoadAnswer {
  return {
    status: 0,
    isOk: false,
    fault: () => fault,
    body: () => Buffer.alloc(0),
    header: () => undefined,
  };
}
