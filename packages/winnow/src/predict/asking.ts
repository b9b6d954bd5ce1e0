// How a request for predictions is sent, and why it has no predictions: in the words of the server, or of the connection.

import { WinnowError, excerpt } from "@winnow/core";
import type { Clock, ErrorCode } from "@winnow/core";
import type { RestAnswer, RestClient } from "../access/rest-client.ts";
import { terminalLine } from "../terminal-text.ts";
import { type PredictQuestion, modelUrl } from "./predict-request.ts";

/** How a command asks. */
export interface Asking {
  readonly client: RestClient;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Ends the wait for an answer. */
  readonly signal?: AbortSignal | undefined;
}

/** Asks for predictions. @throws WinnowError UNAVAILABLE without an answer, UNAUTHENTICATED for a certificate that is not believed */
export async function askPredictions(
  asking: Asking,
  url: string,
  body: string,
): Promise<RestAnswer> {
  try {
    return await asking.client.askWithin(url, { body, signal: asking.signal }, asking);
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    if (/CERT|SELF_SIGNED|UNABLE_TO/.test(code)) {
      const text = `The certificate of ${url} is not believed: ${message}; name its authority with --ca`;
      throw new WinnowError("UNAUTHENTICATED", text, { cause: error });
    }
    const found =
      code === "ECONNREFUSED"
        ? `Nothing answers at ${url}; start a cluster with "winnow up --models DIR" or name another --url`
        : `No answer came from ${url}: ${message === "" ? code : message}; look whether --url names a router's REST port`;
    throw new WinnowError("UNAVAILABLE", found, { cause: error });
  }
}

/** The code that an HTTP status stands for; some statuses stand for several codes. */
export function codeOf({ status }: RestAnswer): ErrorCode {
  return CODE_OF_STATUS.get(status) ?? (status < 500 ? "INVALID_ARGUMENT" : "UNKNOWN");
}

const CODE_OF_STATUS: ReadonlyMap<number, ErrorCode> = new Map([
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [408, "DEADLINE_EXCEEDED"],
  [429, "RESOURCE_EXHAUSTED"],
  [501, "UNIMPLEMENTED"],
  [503, "UNAVAILABLE"],
  [504, "DEADLINE_EXCEEDED"],
]);

/** What the server says, or the beginning of what came instead. */
export function errorText(answer: RestAnswer): string {
  const { text, status } = answer;
  const target = answer.header("location");
  if (status < 400 && target !== undefined) {
    return told(`HTTP ${status}: the request belongs at ${target}; name that server with --url`);
  }
  try {
    const body = JSON.parse(text) as { error?: unknown };
    if (typeof body.error === "string") return told(body.error);
  } catch {
    // Not JSON, but the page of a proxy: shown unchanged.
  }
  return told(`HTTP ${status}: ${excerpt(text)}`);
}

/** Why versions of the model are not served, by its status; empty if the status does not say. */
export async function failuresOf(asking: Asking, command: PredictQuestion): Promise<string[]> {
  try {
    const { text } = await asking.client.askWithin(modelUrl(command), {}, asking);
    const { model_version_status: versions = [] } = JSON.parse(text) as ModelStatus;
    return versions.flatMap(({ version, status }) => {
      const { error_code: code, error_message: message } = status ?? {};
      if (message === undefined || message === "") return [];
      return [told(`Version ${version} cannot be served: ${code}: ${message}`)];
    });
  } catch {
    // The error of the request itself is shown in any case.
    return [];
  }
}

/** The parts of `GET /v1/models/NAME` that report failures. */
interface ModelStatus {
  readonly model_version_status?: readonly {
    readonly version: string;
    readonly status?: { readonly error_code?: string; readonly error_message?: string };
  }[];
}

/** An error lists what is wrong with a version; other texts of a server are cut at this length. */
const TOLD_CHARACTERS_MAX = 10_000;

/** A server's text on one line, so that no part of it looks like a line of this command. */
export function told(text: string): string {
  return terminalLine(
    text.length <= TOLD_CHARACTERS_MAX ? text : `${text.slice(0, TOLD_CHARACTERS_MAX)}…`,
  );
}
