// Which requests are answered by a model, as opposed to those that tell about models.

/** Their kinds: over REST in lower case, over gRPC by method; "infer" and "ModelInfer" are the Open Inference Protocol's. */
export const PREDICTION_APIS: ReadonlySet<string> = new Set([
  "predict",
  "classify",
  "regress",
  "infer",
  "Predict",
  "Classify",
  "Regress",
  "MultiInference",
  "ModelInfer",
]);
