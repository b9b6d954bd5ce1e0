// Original file: proto/winnow/shard/v1/shard.proto

export interface ProgramChunk {
  data?: Buffer | Uint8Array | string;
}

export interface ProgramChunk__Output {
  data: Buffer;
}
