// Errors of one graph node in TensorFlow's form: the message, then the node.
//
//   indices[0] = 8 is not in [0, 8)
//   	 [[{{node user_model/embedding/embedding_lookup}}]]

import { WinnowError } from "../errors/errors.ts";

/** An INVALID_ARGUMENT without a node; `errorAtNode` adds the node. */
export function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}

/** Adds the node's name to INVALID_ARGUMENT and RESOURCE_EXHAUSTED; not to other errors. */
export function errorAtNode(error: unknown, node: string): unknown {
  const isNamed = error instanceof WinnowError && error.message.includes("[[{{node ");
  if (!(error instanceof WinnowError) || isNamed) return error;
  if (error.code !== "INVALID_ARGUMENT" && error.code !== "RESOURCE_EXHAUSTED") return error;
  const message = `${error.message}\n\t [[{{node ${node}}}]]`;
  return new WinnowError(error.code, message, { cause: error });
}
