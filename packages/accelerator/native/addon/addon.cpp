// The addon's entry point: lists its functions for Node. It keeps no state of a thread, so that any
// number of threads may load it.

#include "addon/addon.h"

namespace {

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
    {"createDevice", winnow::createDevice},   {"releaseDevice", winnow::releaseDevice},
    {"startSearch", winnow::startSearch},     {"cancelSearch", winnow::cancelSearch},
    {"runSearch", winnow::runSearch},
    {"extendChecksum", winnow::extendChecksum}, {"indexOfInfinite", winnow::indexOfInfinite},
    {"lookIntoFolders", winnow::lookIntoFolders},
    {"exitAtOnce", winnow::exitAtOnce},
};

}  // namespace

NAPI_MODULE_INIT() {
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
