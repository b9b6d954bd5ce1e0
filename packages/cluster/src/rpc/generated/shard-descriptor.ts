// Generated from winnow/shard/v1/shard.proto by `npm run generate`: the descriptor as data.

/** The descriptor of winnow/shard/v1/shard.proto, as protobufjs reads it. */
export const shardDescriptor: { readonly nested: Readonly<Record<string, unknown>> } = {
  nested: {
    winnow: {
      nested: {
        shard: {
          nested: {
            v1: {
              nested: {
                Shard: {
                  methods: {
                    Exchange: {
                      requestType: "RouterFrame",
                      requestStream: true,
                      responseType: "WorkerFrame",
                      responseStream: true,
                    },
                    Describe: { requestType: "DescribeRequest", responseType: "Announcement" },
                    GetProgram: {
                      requestType: "ProgramRequest",
                      responseType: "ProgramChunk",
                      responseStream: true,
                    },
                    FollowOrder: {
                      requestType: "FollowOrderRequest",
                      responseType: "FollowOrderReply",
                    },
                    GetOrder: { requestType: "GetOrderRequest", responseType: "GetOrderReply" },
                    DrainWorker: {
                      requestType: "DrainWorkerRequest",
                      responseType: "DrainWorkerReply",
                    },
                  },
                },
                RouterFrame: {
                  oneofs: {
                    frame: { oneof: ["hello", "queries", "cancel", "ping", "predecessor"] },
                  },
                  fields: {
                    hello: { type: "RouterHello", id: 1 },
                    queries: { type: "QueryBatch", id: 2 },
                    cancel: { type: "Cancel", id: 3 },
                    ping: { type: "Ping", id: 4 },
                    predecessor: { type: "Predecessor", id: 5 },
                  },
                },
                WorkerFrame: {
                  oneofs: { frame: { oneof: ["state", "replies", "pong", "drain", "members"] } },
                  fields: {
                    state: { type: "Announcement", id: 1 },
                    replies: { type: "ReplyBatch", id: 2 },
                    pong: { type: "Pong", id: 3 },
                    drain: { type: "Drain", id: 4 },
                    members: { type: "Members", id: 5 },
                  },
                },
                RouterHello: {
                  fields: {
                    router_id: { type: "string", id: 1 },
                    wants_members: { type: "bool", id: 2 },
                  },
                },
                Members: { fields: { members: { rule: "repeated", type: "Member", id: 1 } } },
                Member: {
                  fields: {
                    worker_id: { type: "string", id: 1 },
                    incarnation: { type: "uint64", id: 2 },
                    address: { type: "string", id: 3 },
                    gone: { type: "bool", id: 4 },
                  },
                },
                Predecessor: { fields: { incarnation: { type: "uint64", id: 1 } } },
                Ping: {
                  fields: {
                    sequence: { type: "uint32", id: 1 },
                    wants_heard: { type: "bool", id: 2 },
                    in_doubt: { type: "bool", id: 3 },
                  },
                },
                Pong: {
                  fields: {
                    sequence: { type: "uint32", id: 1 },
                    queue_rows: { type: "uint32", id: 2 },
                    progress: { type: "uint64", id: 3 },
                    stalled: { type: "bool", id: 4 },
                    heard: { rule: "repeated", type: "Heard", id: 5 },
                    scans: { type: "uint64", id: 6 },
                    scanned_queries: { type: "uint64", id: 7 },
                  },
                },
                Heard: {
                  fields: {
                    worker_id: { type: "string", id: 1 },
                    incarnation: { type: "uint64", id: 2 },
                    digest: { type: "uint64", id: 3 },
                    age_ms: { type: "uint32", id: 4 },
                  },
                },
                Drain: { fields: {} },
                QueryBatch: { fields: { queries: { rule: "repeated", type: "Query", id: 1 } } },
                Query: {
                  oneofs: { ask: { oneof: ["top_k", "lookup"] } },
                  fields: {
                    id: { type: "uint64", id: 1 },
                    remaining_ms: { type: "uint32", id: 2 },
                    model: { type: "string", id: 3 },
                    version: { type: "uint64", id: 4 },
                    fingerprint: { type: "string", id: 5 },
                    table: { type: "uint32", id: 6 },
                    partitions: { type: "bytes", id: 7 },
                    top_k: { type: "TopKAsk", id: 8 },
                    lookup: { type: "LookupAsk", id: 9 },
                    trace: { type: "bytes", id: 10 },
                  },
                },
                TopKAsk: {
                  fields: {
                    k: { type: "uint32", id: 1 },
                    queries: { type: "uint32", id: 2 },
                    vectors: { type: "bytes", id: 3 },
                    excluded: { rule: "repeated", type: "Keys", id: 4 },
                    rows_only: { type: "bool", id: 5 },
                    filters: { rule: "repeated", type: "string", id: 6 },
                    included: { rule: "repeated", type: "Keys", id: 7 },
                    attributes: { rule: "repeated", type: "string", id: 8 },
                    vector_bytes: { type: "bool", id: 9 },
                    own_vectors: { type: "bool", id: 10 },
                    item_rows: { type: "KeyedRows", id: 11 },
                    item_rows_later: { type: "bool", id: 12 },
                    vectors_later: { type: "bool", id: 13 },
                  },
                },
                KeyedRows: {
                  fields: {
                    model: { type: "string", id: 1 },
                    version: { type: "uint64", id: 2 },
                    fingerprint: { type: "string", id: 3 },
                    table: { type: "uint32", id: 4 },
                  },
                },
                LookupAsk: {
                  fields: { keys: { type: "Keys", id: 1 }, known_only: { type: "bool", id: 2 } },
                },
                Keys: {
                  oneofs: { keys: { oneof: ["strings", "integers"] } },
                  fields: {
                    strings: { type: "Strings", id: 1 },
                    integers: { type: "bytes", id: 2 },
                  },
                },
                Strings: {
                  fields: { lengths: { type: "bytes", id: 1 }, data: { type: "bytes", id: 2 } },
                },
                ReplyBatch: { fields: { replies: { rule: "repeated", type: "Reply", id: 1 } } },
                Reply: {
                  oneofs: { answer: { oneof: ["top_k", "lookup", "failure"] } },
                  fields: {
                    id: { type: "uint64", id: 1 },
                    queue_us: { type: "uint32", id: 2 },
                    compute_us: { type: "uint32", id: 3 },
                    top_k: { type: "TopKAnswer", id: 4 },
                    lookup: { type: "LookupAnswer", id: 5 },
                    failure: { type: "Failure", id: 6 },
                  },
                },
                TopKAnswer: {
                  oneofs: { ids: { oneof: ["id_strings", "id_int32", "id_int64"] } },
                  fields: {
                    k: { type: "uint32", id: 1 },
                    counts: { type: "bytes", id: 2 },
                    scores: { type: "bytes", id: 3 },
                    rows: { type: "bytes", id: 4 },
                    id_strings: { type: "Strings", id: 5 },
                    id_int32: { type: "bytes", id: 6 },
                    id_int64: { type: "bytes", id: 7 },
                    attributes: { type: "Strings", id: 8 },
                    vector_bytes: { type: "bool", id: 9 },
                    item_rows: { type: "bytes", id: 10 },
                    item_rows_later: { type: "bool", id: 11 },
                    vectors_later: { type: "bool", id: 12 },
                  },
                },
                LookupAnswer: {
                  fields: { vectors: { type: "bytes", id: 1 }, known: { type: "bytes", id: 2 } },
                },
                Failure: {
                  fields: {
                    code: { type: "uint32", id: 1 },
                    reason: { type: "string", id: 2 },
                    message: { type: "string", id: 3 },
                  },
                },
                Cancel: { fields: { id: { type: "uint64", id: 1 } } },
                DescribeRequest: { fields: {} },
                ProgramRequest: {
                  fields: {
                    model: { type: "string", id: 1 },
                    version: { type: "uint64", id: 2 },
                    fingerprint: { type: "string", id: 3 },
                    table_bytes_max: { type: "uint64", id: 4 },
                  },
                },
                ProgramChunk: { fields: { data: { type: "bytes", id: 1 } } },
                FollowOrderRequest: {
                  oneofs: { what: { oneof: ["order", "draft"] } },
                  fields: { order: { type: "string", id: 1 }, draft: { type: "string", id: 2 } },
                },
                FollowOrderReply: { fields: {} },
                GetOrderRequest: { fields: {} },
                GetOrderReply: { fields: { order: { type: "string", id: 1 } } },
                DrainWorkerRequest: { fields: { order: { type: "string", id: 1 } } },
                DrainWorkerReply: { fields: {} },
                Announcement: {
                  fields: {
                    worker_id: { type: "string", id: 1 },
                    incarnation: { type: "uint64", id: 2 },
                    address: { type: "string", id: 3 },
                    state: { type: "string", id: 4 },
                    accelerator: { type: "string", id: 5 },
                    device: { type: "string", id: 6 },
                    memory_used_bytes: { type: "uint64", id: 7 },
                    memory_capacity_bytes: { type: "uint64", id: 8 },
                    versions: { rule: "repeated", type: "VersionHolding", id: 9 },
                    order_number: { type: "uint64", id: 10 },
                    order_id: { type: "string", id: 11 },
                    release: { type: "string", id: 12 },
                    placement: { type: "string", id: 13 },
                    machine: { type: "string", id: 14 },
                  },
                },
                VersionHolding: {
                  fields: {
                    model: { type: "string", id: 1 },
                    version: { type: "uint64", id: 2 },
                    fingerprint: { type: "string", id: 3 },
                    state: { type: "string", id: 4 },
                    error_code: { type: "uint32", id: 5 },
                    error_message: { type: "string", id: 6 },
                    tables: { rule: "repeated", type: "TableHolding", id: 7 },
                    serving: { type: "bool", id: 8 },
                    update_bytes: { type: "uint64", id: 9 },
                  },
                },
                TableHolding: {
                  fields: {
                    table: { type: "uint32", id: 1 },
                    partitions: { type: "uint32", id: 2 },
                    held: { type: "bytes", id: 3 },
                    shares: { type: "bytes", id: 4 },
                    sources: { type: "uint32", id: 5 },
                  },
                },
              },
            },
          },
        },
      },
    },
  },
};
