// Original file: proto/winnow/shard/v1/shard.proto

import type * as grpc from "@grpc/grpc-js";
import type { MethodDefinition } from "@grpc/proto-loader";
import type {
  Announcement as _winnow_shard_v1_Announcement,
  Announcement__Output as _winnow_shard_v1_Announcement__Output,
} from "../../../winnow/shard/v1/Announcement.ts";
import type {
  DescribeRequest as _winnow_shard_v1_DescribeRequest,
  DescribeRequest__Output as _winnow_shard_v1_DescribeRequest__Output,
} from "../../../winnow/shard/v1/DescribeRequest.ts";
import type {
  ProgramChunk as _winnow_shard_v1_ProgramChunk,
  ProgramChunk__Output as _winnow_shard_v1_ProgramChunk__Output,
} from "../../../winnow/shard/v1/ProgramChunk.ts";
import type {
  ProgramRequest as _winnow_shard_v1_ProgramRequest,
  ProgramRequest__Output as _winnow_shard_v1_ProgramRequest__Output,
} from "../../../winnow/shard/v1/ProgramRequest.ts";
import type {
  RouterFrame as _winnow_shard_v1_RouterFrame,
  RouterFrame__Output as _winnow_shard_v1_RouterFrame__Output,
} from "../../../winnow/shard/v1/RouterFrame.ts";
import type {
  SetModelsReply as _winnow_shard_v1_SetModelsReply,
  SetModelsReply__Output as _winnow_shard_v1_SetModelsReply__Output,
} from "../../../winnow/shard/v1/SetModelsReply.ts";
import type {
  SetModelsRequest as _winnow_shard_v1_SetModelsRequest,
  SetModelsRequest__Output as _winnow_shard_v1_SetModelsRequest__Output,
} from "../../../winnow/shard/v1/SetModelsRequest.ts";
import type {
  WorkerFrame as _winnow_shard_v1_WorkerFrame,
  WorkerFrame__Output as _winnow_shard_v1_WorkerFrame__Output,
} from "../../../winnow/shard/v1/WorkerFrame.ts";

export interface ShardClient extends grpc.Client {
  /**
   * Who this worker is and what it holds.
   */
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  /**
   * Who this worker is and what it holds.
   */
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;

  /**
   * The data path. Both sides greet first; then queries and replies, matched by id.
   */
  Exchange(
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;
  Exchange(
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;
  /**
   * The data path. Both sides greet first; then queries and replies, matched by id.
   */
  exchange(
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;
  exchange(
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;

  /**
   * The program of one version, in chunks (core/program/program-codec).
   */
  GetProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
  GetProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
  /**
   * The program of one version, in chunks (core/program/program-codec).
   */
  getProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
  getProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;

  /**
   * Replaces the models this worker was given by name. Refused unless it was started to allow that.
   */
  SetModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  SetModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  SetModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  SetModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  /**
   * Replaces the models this worker was given by name. Refused unless it was started to allow that.
   */
  setModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  setModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  setModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
  setModels(
    argument: _winnow_shard_v1_SetModelsRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_SetModelsReply__Output>,
  ): grpc.ClientUnaryCall;
}

export interface ShardHandlers extends grpc.UntypedServiceImplementation {
  /**
   * Who this worker is and what it holds.
   */
  Describe: grpc.handleUnaryCall<
    _winnow_shard_v1_DescribeRequest__Output,
    _winnow_shard_v1_Announcement
  >;

  /**
   * The data path. Both sides greet first; then queries and replies, matched by id.
   */
  Exchange: grpc.handleBidiStreamingCall<
    _winnow_shard_v1_RouterFrame__Output,
    _winnow_shard_v1_WorkerFrame
  >;

  /**
   * The program of one version, in chunks (core/program/program-codec).
   */
  GetProgram: grpc.handleServerStreamingCall<
    _winnow_shard_v1_ProgramRequest__Output,
    _winnow_shard_v1_ProgramChunk
  >;

  /**
   * Replaces the models this worker was given by name. Refused unless it was started to allow that.
   */
  SetModels: grpc.handleUnaryCall<
    _winnow_shard_v1_SetModelsRequest__Output,
    _winnow_shard_v1_SetModelsReply
  >;
}

export interface ShardDefinition extends grpc.ServiceDefinition {
  Describe: MethodDefinition<
    _winnow_shard_v1_DescribeRequest,
    _winnow_shard_v1_Announcement,
    _winnow_shard_v1_DescribeRequest__Output,
    _winnow_shard_v1_Announcement__Output
  >;
  Exchange: MethodDefinition<
    _winnow_shard_v1_RouterFrame,
    _winnow_shard_v1_WorkerFrame,
    _winnow_shard_v1_RouterFrame__Output,
    _winnow_shard_v1_WorkerFrame__Output
  >;
  GetProgram: MethodDefinition<
    _winnow_shard_v1_ProgramRequest,
    _winnow_shard_v1_ProgramChunk,
    _winnow_shard_v1_ProgramRequest__Output,
    _winnow_shard_v1_ProgramChunk__Output
  >;
  SetModels: MethodDefinition<
    _winnow_shard_v1_SetModelsRequest,
    _winnow_shard_v1_SetModelsReply,
    _winnow_shard_v1_SetModelsRequest__Output,
    _winnow_shard_v1_SetModelsReply__Output
  >;
}
