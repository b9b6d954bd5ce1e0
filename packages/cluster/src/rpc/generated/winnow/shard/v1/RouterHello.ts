// Original file: proto/winnow/shard/v1/shard.proto

export interface RouterHello {
  router_id?: string;
  wants_members?: boolean;
}

export interface RouterHello__Output {
  router_id: string;
  wants_members: boolean;
}
