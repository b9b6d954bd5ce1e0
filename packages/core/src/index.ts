// The types that all other packages share, their arithmetic, errors and limits. No I/O, no Redis,
// no gRPC, no TensorFlow.

export { copyBytes } from "./memory/byte-copy.ts";
export { makeDirectory, makeDirectorySync } from "./files/make-directory.ts";
export { accessDeniedText, readFailureText } from "./files/read-failure.ts";
export { isOutOfRoom, removeRemains, writeFailureText } from "./files/full-disk.ts";
export { repeatedKey, yamlTokens } from "./files/yaml-text.ts";
export type { FailedWrite } from "./files/full-disk.ts";
export {
  checksumConstant,
  checksumShare,
  checksumBefore,
  combineChecksums,
  crc32c,
  extendRegister,
  extendRegisterByWords,
  maskChecksum,
  shiftRegister,
  unmaskChecksum,
  wholeOf,
} from "./checksum/checksum.ts";
export type { Span } from "./checksum/checksum.ts";
export { settledWithin, sleep, keepAliveClock, systemClock } from "./time/clock.ts";
export type { Clock, Timer } from "./time/clock.ts";
export { dtypeArrays, isBigInts, isDtype } from "./tensor/dtype.ts";
export type {
  Dtype,
  DtypeArrays,
  NumberArray,
  NumericArray,
  NumericDtype,
} from "./tensor/dtype.ts";
export { isObjectUrl, joinObjectUrl, parseObjectUrl, writtenObject } from "./object-url.ts";
export type { ObjectBucket, ObjectScheme, ObjectUrl } from "./object-url.ts";
export { silentLogger } from "./environment.ts";
export type { Environment, Fields, Logger } from "./environment.ts";
export {
  WinnowError,
  codeOfGrpcStatus,
  excerpt,
  grpcStatusOf,
  httpStatusOf,
  toWinnowError,
  withoutStack,
} from "./errors/errors.ts";
export type { ErrorCode } from "./errors/errors.ts";
export { setGraceTimer } from "./time/grace-timer.ts";
export { LAG_TIMER_MS, takeOffLagTimer } from "./time/loop-lag.ts";
export { sharedMaking } from "./time/shared-making.ts";
export { nextLoopTurn, quietTurn } from "./time/loop-turn.ts";
export { AbortableSignal } from "./time/signal.ts";
export type { Signal } from "./time/signal.ts";
export type { GraceTimer } from "./time/grace-timer.ts";
export {
  ANNOUNCED_NAME,
  FILE_DIGITS,
  areOfSameFiles,
  fingerprint,
  generation,
  incarnation,
  workerId,
  groupedByModel,
  isModelName,
  misnamedModelText,
} from "./identity.ts";
export type { Fingerprint, Generation, Incarnation, VersionKey, WorkerId } from "./identity.ts";
export { createKeyIndex } from "./indexes/key-index.ts";
export type { KeyIndex, KeyedTableKeys } from "./indexes/key-index.ts";
export type { KeyedPartition } from "./partition/keyed-partition.ts";
export {
  PARTITION_BYTES,
  partitionCountOf,
  partitionHolding,
  partitionOfBytes,
  partitionOfInteger,
  partitionOfRow,
  partitionOfString,
  rowRangeOf,
} from "./partition/partition.ts";
export type { EvenCut, RowRange, TableCut } from "./partition/partition.ts";
export { fingerprint64, hashBucketFast } from "./program/hashes/farm-hash.ts";
export {
  hostOperationNames,
  isHostOperation,
  runHostStep,
  validateHostStep,
} from "./program/operations/host-operations.ts";
export {
  EXAMPLES_INPUT,
  ExampleInput,
  exampleColumn,
} from "./program/operations/examples/example-input.ts";
export {
  decodeProgram,
  decodeProgramPackage,
  encodeProgram,
  encodeProgramPackage,
} from "./program/codec/program-codec.ts";
export type { ProgramPackage } from "./program/codec/program-codec.ts";
export {
  MERGE_WEIGHT_MAX,
  RANK_CONSTANT_MAX,
  PIPELINE_CANDIDATES_MAX,
  PIPELINE_HEADS_MAX,
  PIPELINE_STAGES_MAX,
  SCORE_SO_FAR,
  SEEN_COUNT_MAX,
  STAGE_BUDGET_MS_MAX,
  asksModel,
  fallbackPipelineOf,
  itemInputsOf,
  modelsOf,
  orderFault,
  retrievalOf,
  scoreNamesOf,
  unknownStageOf,
} from "./program/composed/pipeline.ts";
export type {
  DiversifyStage,
  FilterStage,
  MergeStage,
  ModelStage,
  ScoreStage,
  SeenStage,
  SeenType,
  UnknownAnswer,
  UnknownStage,
} from "./program/composed/pipeline.ts";
export { keyLookupsOf } from "./program/key-lookups.ts";
export type { KeyLookups, KeyVocabulary } from "./program/key-lookups.ts";
export { keyWith, parseKeyPattern } from "./program/composed/seen-key.ts";
export {
  evaluateScore,
  isScoreName,
  namesInScore,
  parseScore,
  scoreText,
} from "./program/composed/score-expression.ts";
export { stageWords } from "./program/composed/pipeline-text.ts";
export type { ScoreExpression } from "./program/composed/score-expression.ts";
export type {
  LimitStage,
  Pipeline,
  PipelineMember,
  PipelineStage,
  RankSource,
  RankStage,
  RetrieveStage,
} from "./program/composed/pipeline.ts";
export {
  ARM_NAME,
  ARM_WEIGHT_MAX,
  EXPERIMENT_ARMS_MAX,
  HEADER_NAME,
  SALT_BYTES_MAX,
  experimentFault,
  targetText,
} from "./program/composed/experiment.ts";
export type {
  ArmTarget,
  Experiment,
  ExperimentArm,
  ExperimentShadow,
  StickyKey,
} from "./program/composed/experiment.ts";
export { rankedIdsOf } from "./program/mapped-steps.ts";
export type { ItemIds } from "./program/mapped-steps.ts";
export { runProgram } from "./program/program-run.ts";
export {
  HOST_OUTPUT_BYTES_MAX,
  HOST_OUTPUT_STRINGS_MAX,
  HOST_OUTPUT_VALUES_MAX,
} from "./program/operations/tensor-memory.ts";
export { stepWork } from "./program/operations/host-work.ts";
export type { ProgramExecutors, ProgramRequest } from "./program/program-run.ts";
export type {
  Attribute,
  CandidateTable,
  ChoiceStep,
  Condition,
  DenseRanking,
  DenseStep,
  HostStep,
  KeyedTable,
  LookupStep,
  MaskRule,
  SearchMask,
  ScoreFunction,
  ScoreOperationName,
  MissingKey,
  ModelProgram,
  RankedItems,
  SearchDepth,
  SignatureProgram,
  SignatureTensor,
  Step,
  TableKeys,
  TableSource,
  TableSpec,
  TopKStep,
  ValueId,
  Vocabulary,
} from "./program/program.ts";
export { TABLE_SOURCES_MAX, vectorDimOf } from "./program/program.ts";
export { areSearched, searchesOf } from "./program/search/row-classes.ts";
export { maskValueAt, testsInRule } from "./program/search/search-mask.ts";
export { elementFunction, isSoftmax, scoreValues } from "./program/search/score-functions.ts";
export type {
  BoundFunction,
  ElementFunctionName,
  ScoreValue,
} from "./program/search/score-functions.ts";
export type { SumsQuestion } from "./program/search/softmax-search.ts";
export {
  functionsInSums,
  isSumsAttribute,
  readSums,
  sumsAttribute,
  sumsText,
} from "./program/search/sums-attribute.ts";
export { PowerSum } from "./program/search/softmax-sums.ts";
export type { SoftmaxSums } from "./program/search/softmax-sums.ts";
export { WITHDRAWN, withoutWithdrawn } from "./program/search/withdrawn-rows.ts";
export { roundedToBfloat16, roundedToHalf } from "./tensor/narrow-rounding.ts";
export { DEPTH_OPERATIONS, depthText, requestedDepth } from "./program/search-depth.ts";
export { uncutTableText } from "./program/uncut-table.ts";
export type { UncutTable } from "./program/uncut-table.ts";
export { indexVocabularies } from "./program/vocabulary-index.ts";
export type { VocabularyIndex } from "./program/vocabulary-index.ts";
export { signatureOf } from "./program/codec/warm-up.ts";
export type { WarmUpRequest } from "./program/codec/warm-up.ts";
export { ProtobufReader } from "./protobuf/protobuf-reader.ts";
export type { ProtobufFault, ProtobufRules } from "./protobuf/protobuf-reader.ts";
export { ProtobufWriter } from "./protobuf/protobuf-writer.ts";
export {
  VARINT_BYTES_MAX,
  WIRE,
  sizeOfField,
  sizeOfVarint,
  sizeOfWords,
} from "./protobuf/wire-format.ts";
export { plainRowChecks } from "./checksum/row-checks.ts";
export type { RowChecks } from "./checksum/row-checks.ts";
export { StringColumn } from "./tensor/string-column.ts";
export { IdTable } from "./memory/id-table.ts";
export {
  assertDescriptors,
  descriptorLimit,
  fittingConnections,
} from "./memory/descriptor-limit.ts";
export { assertFreeMemory, systemMemory } from "./memory/free-memory.ts";
export { fittingMemory, memoryLimitBytes, rowMemoryBytes } from "./memory/memory-limit.ts";
export { Outstanding } from "./memory/outstanding.ts";
export { addReadMetrics } from "./metrics/read-metrics.ts";
export type { MetricSeries, ReadMetric } from "./metrics/read-metrics.ts";
export { NamedSeries } from "./metrics/named-series.ts";
export type { MetricRegister } from "./metrics/tallies.ts";
export { TalliedCounter, TalliedHistogram } from "./metrics/tallies.ts";
export { elementCount, requireEqualRows, stringTensor, tensor } from "./tensor/tensor.ts";
export type { Tensor, TensorOf, TensorSpec } from "./tensor/tensor.ts";
export { ThreadCaller, answerCalls, transferOf } from "./threads/thread-calls.ts";
export type { ThreadAnswer, ThreadPort, ThreadProblem } from "./threads/thread-calls.ts";
export { entryBeside } from "./threads/thread-entry.ts";
export { ThreadLink } from "./threads/thread-link.ts";
export { compareCandidates, mergeTopK } from "./top-k.ts";
export type { MergedTopK, TopKBlock } from "./top-k.ts";
export { FolderWalk } from "./limits/folder-walk.ts";
export { TaskSlots } from "./limits/task-slots.ts";
export { PIECE_BYTES, Transfers } from "./limits/transfers.ts";
export type { GiveUpReason, HeldMemory, Transfer, TransferLimits } from "./limits/transfers.ts";
export { dueMsOf } from "./time/due-time.ts";
export type { Arrival } from "./time/due-time.ts";
export { checkInputShape, checkInputs } from "./program/step-contract.ts";
export type { TopKQuestion } from "./program/step-contract.ts";
export type { TopKAnswer } from "./program/step-contract.ts";
export type { InlineTable } from "./program/codec/table-codec.ts";
export { FoundRows, IdIndex, comparableIds } from "./indexes/id-index.ts";
export { parseTraceparent, traceContextBytes, traceContextOf } from "./trace.ts";
export type { SpanStart, TraceAttributes, TraceContext, TraceSpan, Tracer } from "./trace.ts";
export { nearestName } from "./errors/nearest-name.ts";
export { ColumnBuilder } from "./attributes/column-builder.ts";
export {
  NO_ROW,
  SUMS_ATTRIBUTE,
  VECTOR_ATTRIBUTE,
  columnBytes,
  rowsOfColumn,
  takeRows,
  valueOfCode,
  valuesOfVector,
  vectorTextLength,
} from "./attributes/attribute-column.ts";
export { memberTexts } from "./attributes/attribute-text.ts";
export { cellOf, cellPartsAt, vectorCells, vectorsOfCells } from "./attributes/item-cell.ts";
export type { CellParts } from "./attributes/item-cell.ts";
export type {
  AttributeColumn,
  AttributeSpec,
  AttributeType,
  AttributeValue,
} from "./attributes/attribute-column.ts";
export { FILTER_LIMITS, ROW_COLUMN, conditionsOf } from "./attributes/filter.ts";
export type { Filter } from "./attributes/filter.ts";
export { attributeNamed, bindFilter } from "./attributes/filter-binding.ts";
export { parseFilter } from "./attributes/filter-language.ts";
export type { JsonValue } from "./attributes/filter-language.ts";
export { admittedRows, admittedRowsInSteps } from "./attributes/filter-rows.ts";
export type { AttributeColumns, FilteredRows } from "./attributes/filter-rows.ts";
export { filterText, parseFilterText } from "./attributes/filter-text.ts";
export { timeOf, timestampText } from "./attributes/timestamp.ts";
export { hostPort } from "./host-port.ts";
export { indexVersions } from "./version-names.ts";
export type { VersionIndex } from "./version-names.ts";
