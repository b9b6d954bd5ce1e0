// Definitions of TensorFlow's own operations (ops.pbtxt), as far as a walk needs them: the outputs, how
// many and of which types, and the defaults of the attributes that these depend on; other defaults stand where the
// operations are read. An export lists the definitions of the operations of its main graph and of the functions that
// this calls, and no others: not those of the bodies of loops and data sets. TensorFlow 2.0 lists those of the main
// graph alone, which are next to none.

import { typeName } from "../../bundle/data-type.ts";
import type { AttributeValue } from "./attributes.ts";
import type { OperationDefinition, OutputArgument } from "./graph-definition.ts";

/**
 * Operations by their outputs. An output is `name:type`, where the type is an element type or the
 * attribute that holds it; `name:count*type` stands for as many outputs as an attribute says,
 * `name:*types` for one of each type in a list. After `|` stand defaults.
 */
const OPERATIONS: Readonly<Record<string, string>> = {
  "":
    "Assert,AssignAddVariableOp,AssignSubVariableOp,AssignVariableOp,ControlTrigger," +
    "DisableCopyOnRead,InitializeTableFromTextFileV2,InitializeTableV2,LookupTableImportV2,MergeV2Checkpoints,NoOp," +
    "SaveV2",
  "activations:T": "Elu,Relu,Relu6,Selu,Softplus,Softsign",
  "activations:T | T=float32": "LeakyRelu",
  "band:T": "MatrixBandPart",
  "bins:T": "Bincount",
  "dense:T": "SparseToDense",
  "filename:string": "ShardedFilename",
  "diagonal:T": "MatrixDiagPartV3",
  "components:*output_types": "ReduceDataset",
  "element_shape:shape_type": "TensorListElementShape",
  "handle:variant":
    "BatchDataset,BatchDatasetV2,CacheDataset,CacheDatasetV2,EmptyTensorList,MapDataset,ModelDataset,OptionsDataset," +
    "ParallelBatchDataset,ParallelMapDataset,ParallelMapDatasetV2,PrefetchDataset,TensorListReserve,TensorSliceDataset",
  "index:int64": "Where",
  "indices:int32 distances:float32": "Scann>ScannSearchBatched",
  "indices:int64 values:string shape:int64": "StringSplit,StringSplitV2",
  "is_initialized:bool": "VarIsInitializedOp",
  "item:element_dtype": "TensorListGetItem",
  "keys:Tkeys values:Tvalues": "LookupTableExportV2",
  "length:int32": "TensorListLength",
  "logsoftmax:T": "LogSoftmax",
  "ngrams:string ngrams_splits:Tsplits | Tsplits=int64": "StringNGrams",
  "out:T": "Cumprod,Cumsum",
  "out:T idx:out_idx | out_idx=int32": "ListDiff",
  "tensor:T": "CheckNumerics",
  "output:*T": "IdentityN,StatelessWhile,While",
  "output:*Tout": "Case,If,PartitionedCall,StatefulPartitionedCall,StatelessCase,StatelessIf",
  "output:N*out_type | out_type=int32": "ShapeN",
  "output:T":
    "BatchMatMul,BatchMatMulV2,BiasAdd,BroadcastTo,ClipByValue,ConcatV2,DenseBincount,Einsum," +
    "AvgPool,BatchToSpaceND,Conv2D,Conv2DBackpropInput,DepthwiseConv2dNative,MatrixDiagV3,MatrixSetDiagV3," +
    "SpaceToBatchND,TensorScatterAdd,TensorScatterMax,TensorScatterMin,TensorScatterSub," +
    "EnsureShape,EuclideanNorm,ExpandDims,Fill,Identity,L2Loss,LinSpace,MatrixDiag,Max,Mean,Min,MirrorPad,OneHot," +
    "Pack,Pad,PadV2,PreventGradient,Prod,RaggedBincount,Reshape,Reverse,ReverseSequence,ReverseV2,Roll,Snapshot," +
    "ScatterNd,SegmentMax,SegmentMean,SegmentMin,SegmentProd,SegmentSum,Select,SelectV2,Slice,SparseBincount,SparseSegmentMean,SparseSegmentSqrtN," +
    "SparseSegmentSum,Squeeze,StopGradient,StridedSlice,Sum,TensorScatterUpdate,Tile," +
    "UnsortedSegmentMax,UnsortedSegmentMin,UnsortedSegmentProd,UnsortedSegmentSum",
  "output:T | T=float32": "MaxPool",
  "output:Tidx | Tidx=int32": "Range",
  "output:Tout": "BatchMatMulV3",
  "output:Tparams": "Gather,GatherNd,GatherV2",
  "output:*OUT_TYPE": "DecodeCSV",
  "output:bool": "All,Any,RegexFullMatch,StaticRegexFullMatch",
  "output:dtype": "Const,Placeholder,PlaceholderWithDefault,ResourceGather,ResourceGatherNd",
  "output:int32": "Bucketize,Rank,StringLength",
  "output:int64": "StringToHashBucket,StringToHashBucketFast,StringToHashBucketStrong",
  "output:num*T": "Unpack",
  "output:num_split*T": "Split,SplitV",
  "outputs:num_partitions*T": "DynamicPartition",
  "output:out_type": "DecodePaddedRaw,DecodeRaw",
  "output:out_type | out_type=float32": "StringToNumber",
  "output:out_type | out_type=int32": "LowerBound,Shape,Size,UpperBound",
  "output:output_type | output_type=int64": "ArgMax,ArgMin",
  "output:string":
    "AsString,DecodeBase64,EncodeBase64,ReduceJoin,RegexReplace,StaticRegexReplace,StringFormat,StringJoin,StringLower,StringStrip," +
    "StringUpper,Substr,UnicodeEncode,UnsortedSegmentJoin",
  "output:type": "Bitcast",
  "merged:T": "DynamicStitch,ParallelDynamicStitch",
  "output_handle:variant":
    "TensorListFromTensor,TensorListPushBack,TensorListResize,TensorListScatterV2,TensorListSetItem",
  "output_handle:variant tensor:element_dtype": "TensorListPopBack",
  "output_indices:int64 output_shape:int64": "SparseReshape",
  "output_indices:int64 output_values:T": "SparseReorder",
  "output_indices:int64 output_values:T output_shape:int64": "SparseSlice",
  "output_indices:int64 output_values:out_type output_shape:int64": "SparseCross",
  "output_indices:int64 output_values:string output_shape:int64": "SparseCrossV2",
  "output_indices:int64 output_values:T empty_row_indicator:bool reverse_index_map:int64":
    "SparseFillEmptyRows",
  "output_nested_splits:OUTPUT_RAGGED_RANK*Tsplits output_dense_values:Tvalues | Tsplits=int64":
    "RaggedGather",
  "product:T": "MatMul,SparseTensorDenseMatMul",
  "r0:T": "BroadcastArgs",
  "result:T": "RaggedTensorToTensor",
  "resource:resource": "VarHandleOp",
  "row_splits:Tsplits char_values:int32 | Tsplits=int64": "UnicodeDecode",
  "rt_nested_splits:Tsplits rt_dense_values:T | T=int32 Tsplits=int64": "RaggedRange",
  "sparse_indices:Nsparse*int64 sparse_values:*sparse_types sparse_shapes:Nsparse*int64 dense_values:*Tdense":
    "ParseExample",
  "sparse_indices:num_sparse*int64 sparse_values:*sparse_types sparse_shapes:num_sparse*int64 dense_values:*Tdense":
    "ParseSingleExample",
  "sparse_indices:num_sparse*int64 sparse_values:*sparse_types sparse_shapes:num_sparse*int64 dense_values:*Tdense ragged_values:*ragged_value_types ragged_row_splits:*ragged_split_types":
    "ParseExampleV2",
  "searcher_handle:resource": "Scann>TensorsToScann",
  "size:int64": "LookupTableSizeV2",
  "softmax:T": "Softmax",
  "sparse_indices:int64 sparse_values:T sparse_dense_shape:int64": "RaggedTensorToSparse",
  "sum:T": "AddN",
  "table_handle:resource": "HashTableV2,MutableHashTableV2",
  "tensor:element_dtype": "TensorListStack",
  "tensors:*dtypes": "RestoreV2",
  "tensor:element_dtype lengths:int64": "TensorListConcat,TensorListConcatV2",
  "value:dtype": "ReadVariableOp",
  "values:T indices:index_type | index_type=int32": "TopKV2",
  "values:T indices:int32": "ApproxTopK,TopK",
  "values:Tout": "LookupTableFindV2",
  "values:element_dtype": "TensorListGather",
  "y:DstT": "Cast",
  "y:T":
    "Abs,Acos,Acosh,Asin,Asinh,Atan,Atanh,Ceil,Cos,Cosh,Erf,Erfc,Exp,Expm1,Floor,Log,Log1p," +
    "Invert,InvertPermutation,Neg,OnesLike,Reciprocal," +
    "Rint,Round,Rsqrt,Sigmoid,Sign,Sin,Sinh,Sqrt,Square,Tan,Tanh,Transpose,ZerosLike",
  "y:T batch_mean:U batch_variance:U reserve_space_1:U reserve_space_2:U reserve_space_3:U":
    "FusedBatchNormV3",
  "y:T batch_mean:U batch_variance:U reserve_space_1:U reserve_space_2:U": "FusedBatchNormV2",
  "y:T idx:out_idx | out_idx=int32": "Unique,UniqueV2",
  "y:T idx:out_idx count:out_idx | out_idx=int32": "UniqueWithCounts",
  "y:bool": "IsFinite,IsInf,IsNan,LogicalNot",
  "z:T":
    "Add,AddV2,Atan2,BitwiseAnd,BitwiseOr,BitwiseXor,Div,DivNoNan,FloorDiv,FloorMod,LeftShift,Maximum," +
    "Minimum,Mod,Mul,MulNoNan,Pow,RealDiv,RightShift,SquaredDifference,Sub,TruncateDiv,TruncateMod,Xdivy,Xlogy",
  "z:bool": "Equal,Greater,GreaterEqual,Less,LessEqual,LogicalAnd,LogicalOr,NotEqual",
};

/** Numbers of element types by name. */
const TYPES: ReadonlyMap<string, number> = new Map(
  Array.from({ length: 32 }, (_, number) => [typeName(number), number]),
);

/** Definitions by name, for operations the graph itself does not define. */
export const STANDARD_OPERATIONS: ReadonlyMap<string, OperationDefinition> = new Map(
  Object.entries(OPERATIONS).flatMap(([outputs, names]) =>
    names.split(",").map((name) => [name, definitionOf(name, outputs)]),
  ),
);

function definitionOf(name: string, text: string): OperationDefinition {
  const [outputs = "", defaults = ""] = text.split(" | ");
  return {
    name,
    inputNames: [],
    outputs: outputs === "" ? [] : outputs.split(" ").map(argumentOf),
    controlOutputs: [],
    defaults: new Map(defaults === "" ? [] : defaults.split(" ").map(defaultOf)),
  };
}

function defaultOf(text: string): [string, AttributeValue] {
  const [attribute = "", type = ""] = text.split("=");
  return [attribute, { kind: "type", value: TYPES.get(type) ?? 0 }];
}

function argumentOf(text: string): OutputArgument {
  const [name = "", ofType = ""] = text.split(":");
  const star = ofType.indexOf("*");
  const countAttribute = ofType.slice(0, Math.max(star, 0));
  const type = ofType.slice(star + 1);
  const isList = star === 0;
  const number = isList ? undefined : TYPES.get(type);
  return {
    name,
    type: number ?? 0,
    typeAttribute: isList || number !== undefined ? "" : type,
    countAttribute,
    typeListAttribute: isList ? type : "",
  };
}
