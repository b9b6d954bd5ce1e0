// What the addon offers to JavaScript; `cpu/native-addon.ts` describes each call.

#pragma once

#include "addon/addon-values.h"
#include "table/table.h"

namespace winnow {

constexpr napi_type_tag TABLE_TAG = {0x2d7e05b98f6a4c31, 0xb58c1f20e74d936a};

napi_value tableBytes(napi_env env, napi_callback_info info);
napi_value createTable(napi_env env, napi_callback_info info);
napi_value appendRows(napi_env env, napi_callback_info info);
napi_value buildTable(napi_env env, napi_callback_info info);
napi_value gatherRows(napi_env env, napi_callback_info info);
napi_value releaseTable(napi_env env, napi_callback_info info);
napi_value shareTable(napi_env env, napi_callback_info info);
napi_value sharedTable(napi_env env, napi_callback_info info);

napi_value createFilter(napi_env env, napi_callback_info info);
napi_value releaseFilter(napi_env env, napi_callback_info info);
napi_value shareFilter(napi_env env, napi_callback_info info);
napi_value sharedFilter(napi_env env, napi_callback_info info);

napi_value createDevice(napi_env env, napi_callback_info info);
napi_value releaseDevice(napi_env env, napi_callback_info info);
napi_value startSearch(napi_env env, napi_callback_info info);
napi_value runSearch(napi_env env, napi_callback_info info);
napi_value cancelSearch(napi_env env, napi_callback_info info);

napi_value extendChecksum(napi_env env, napi_callback_info info);
napi_value indexOfInfinite(napi_env env, napi_callback_info info);

napi_value lookIntoFolders(napi_env env, napi_callback_info info);

napi_value exitAtOnce(napi_env env, napi_callback_info info);

}  // namespace winnow
