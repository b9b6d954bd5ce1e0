// Original file: proto/winnow/shard/v1/shard.proto

import type {
  OrderedModel as _winnow_shard_v1_OrderedModel,
  OrderedModel__Output as _winnow_shard_v1_OrderedModel__Output,
} from "../../../winnow/shard/v1/OrderedModel.ts";

/**
 * The whole list: models that are not in it are unloaded.
 */
export interface SetModelsRequest {
  models?: _winnow_shard_v1_OrderedModel[];
  /**
   * says whether it would be done, and does nothing
   */
  check_only?: boolean;
}

/**
 * The whole list: models that are not in it are unloaded.
 */
export interface SetModelsRequest__Output {
  models: _winnow_shard_v1_OrderedModel__Output[];
  /**
   * says whether it would be done, and does nothing
   */
  check_only: boolean;
}
