// Errors of one graph node, worded as TensorFlow words them: the message, then where it happened.
//
//   indices[0] = 8 is not in [0, 8)
//   	 [[{{node user_model/embedding/embedding_lookup}}]]

import { WinnowError } from "../errors.ts";

/** An INVALID_ARGUMENT without its node yet; `errorAtNode` adds it. */
export function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}

/** The error with the node's name, where the request is at fault; any other error as it is. */
export function errorAtNode(error: unknown, node: string): unknown {
  const isNamed = error instanceof WinnowError && error.message.includes("[[{{node ");
  if (!(error instanceof WinnowError) || isNamed) return error;
  if (error.code !== "INVALID_ARGUMENT" && error.code !== "RESOURCE_EXHAUSTED") return error;
  const message = `${error.message}\n\t [[{{node ${node}}}]]`;
  return new WinnowError(error.code, message, { cause: error });
}
