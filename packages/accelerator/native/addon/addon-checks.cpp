// The checks of rows for JavaScript, over a span of an array.

#include "addon/addon.h"
#include "table/row-checks.h"

namespace winnow {

namespace {

/** The words from `start` to `end`, which must lie within the array. */
ArrayView<int32_t> spanOf(napi_env env, const napi_value* values) {
  const ArrayView<int32_t> words = toIntegers(env, values[0]);
  const uint32_t start = toUint32(env, values[1]);
  const uint32_t end = toUint32(env, values[2]);
  if (start > end || end > words.count) throwTypeError(env, "a span outside the array");
  return {words.data + start, end - start};
}

}  // namespace

napi_value extendChecksum(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<4> arguments(env, info);
    int32_t value = 0;
    check(env, napi_get_value_int32(env, arguments.values[0], &value));
    const ArrayView<int32_t> span = spanOf(env, arguments.values + 1);
    const auto* bytes = reinterpret_cast<const uint8_t*>(span.data);
    const uint32_t extended =
        checksumLoops().front()->extend(static_cast<uint32_t>(value), bytes, span.count * 4);
    return makeNumber(env, static_cast<int32_t>(extended));
  });
}

napi_value indexOfInfinite(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<3> arguments(env, info);
    const ArrayView<int32_t> span = spanOf(env, arguments.values);
    const size_t found = firstNotFinite(reinterpret_cast<const float*>(span.data), span.count);
    const double start = toNumber(env, arguments.values[1]);
    return makeNumber(env, found == span.count ? -1 : start + static_cast<double>(found));
  });
}

}  // namespace winnow
