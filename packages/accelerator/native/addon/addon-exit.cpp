// Ends the process at once, without the teardown of its threads: for a process that has lost its
// device, where that teardown may hang or crash.

#include <cstdlib>

#include "addon/addon.h"

namespace winnow {

napi_value exitAtOnce(napi_env env, napi_callback_info info) {
  return guardCall(env, [&]() -> napi_value {
    const Arguments<1> arguments(env, info);
    std::_Exit(static_cast<int>(toUint32(env, arguments.values[0])));
  });
}

}  // namespace winnow
