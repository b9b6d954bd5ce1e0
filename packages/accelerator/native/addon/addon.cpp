// The addon's entry point: lists its functions for Node. It keeps no state of a thread, so that any
// number of threads may load it.

#include "addon/addon.h"
#include "memory/allocator-settings.h"

namespace {

// Names what the functions below take and give. Whoever changes that of any of them, adds one or takes
// one away raises this number and `ADDON_INTERFACE` in src/cpu/native-addon.ts, so that an addon which
// was compiled from other sources is refused before it is called.
constexpr uint32_t INTERFACE_VERSION = 3;

struct Export {
  const char* name;
  napi_callback call;
};

const Export EXPORTS[] = {
    {"tableBytes", winnow::tableBytes},       {"createTable", winnow::createTable},
    {"appendRows", winnow::appendRows},       {"buildTable", winnow::buildTable},
    {"gatherRows", winnow::gatherRows},       {"releaseTable", winnow::releaseTable},
    {"shareTable", winnow::shareTable},       {"sharedTable", winnow::sharedTable},
    {"createFilter", winnow::createFilter},   {"releaseFilter", winnow::releaseFilter},
    {"shareFilter", winnow::shareFilter},     {"sharedFilter", winnow::sharedFilter},
    {"createDevice", winnow::createDevice},   {"releaseDevice", winnow::releaseDevice},
    {"startSearch", winnow::startSearch},     {"cancelSearch", winnow::cancelSearch},
    {"runSearch", winnow::runSearch},
    {"extendChecksum", winnow::extendChecksum}, {"indexOfInfinite", winnow::indexOfInfinite},
    {"lookIntoFolders", winnow::lookIntoFolders},
    {"exitAtOnce", winnow::exitAtOnce},
};

}  // namespace

NAPI_MODULE_INIT() {
  winnow::returnLargeBlocks();
  napi_value version = nullptr;
  if (napi_create_uint32(env, INTERFACE_VERSION, &version) != napi_ok) return nullptr;
  if (napi_set_named_property(env, exports, "interfaceVersion", version) != napi_ok) return nullptr;
  for (const Export& entry : EXPORTS) {
    napi_value function = nullptr;
    if (napi_create_function(env, entry.name, NAPI_AUTO_LENGTH, entry.call, nullptr, &function) !=
        napi_ok) {
      return nullptr;
    }
    if (napi_set_named_property(env, exports, entry.name, function) != napi_ok) return nullptr;
  }
  return exports;
}
