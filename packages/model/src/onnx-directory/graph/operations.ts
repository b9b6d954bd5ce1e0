// Which operations a `model.onnx` may use: those of ONNX (operator sets 7 to 26; names from the schemas of 13 and later) and those
// of the sets that ONNX Runtime adds. Operations that draw random numbers are excluded, because every replica
// and every repetition must give the same answer.

/** Accepted operator sets of ONNX's own domain. */
export const OPSETS: { readonly least: number; readonly most: number } = { least: 7, most: 26 };
/** The highest version of the file format that is accepted. */
export const IR_VERSION_MAX = 13;
/** Operator sets that ONNX Runtime adds to ONNX's own. */
export const FURTHER_DOMAINS: readonly string[] = ["ai.onnx.ml", "com.microsoft"];

/** Operations that draw random numbers. */
export const RANDOM_OPERATIONS: ReadonlySet<string> = new Set([
  "Bernoulli",
  "Multinomial",
  "RandomNormal",
  "RandomNormalLike",
  "RandomUniform",
  "RandomUniformLike",
]);

/** The operations of ONNX's own domain that are served. */
export const ONNX_OPERATIONS: ReadonlySet<string> = new Set(
  (
    "Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool " +
    "BatchNormalization BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast " +
    "CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat ConcatFromSequence Constant " +
    "ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace " +
    "DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike " +
    "Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool " +
    "GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow " +
    "HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM " +
    "LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul " +
    "MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min " +
    "Mish Mod Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional " +
    "OptionalGetElement OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear " +
    "RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax " +
    "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu Reshape Resize " +
    "ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan ScatterElements ScatterND Selu SequenceAt " +
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap Shape " +
    "Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign " +
    "SpaceToDepth Split SplitToSequence Sqrt Squeeze StringConcat StringNormalizer StringSplit Sub Sum " +
    "Swish Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique " +
    "Unsqueeze Where Xor"
  ).split(" "),
);
