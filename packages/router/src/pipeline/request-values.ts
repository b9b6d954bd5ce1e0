// The values of a request as a pipeline declares them.

import type { PredictRequest } from "../predictor.ts";

/**
 * The request with one value of each instance as `[instances]`: clients of models that take `[instances, 1]` send them
 * in lists of one.
 */
export function withValuesAlone(request: PredictRequest): PredictRequest {
  const { signature, inputs } = request;
  const listed = signature.inputs.flatMap(({ name, shape }) => {
    const values = inputs.get(name);
    const isListed = shape?.length === 1 && values?.shape.length === 2 && values.shape[1] === 1;
    return isListed ? [[name, { ...values, shape: values.shape.slice(0, 1) }] as const] : [];
  });
  return listed.length === 0 ? request : { ...request, inputs: new Map([...inputs, ...listed]) };
}
