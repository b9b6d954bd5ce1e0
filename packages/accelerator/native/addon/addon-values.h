// Values as they cross between JavaScript and C++. The TypeScript side of the addon checks shapes;
// here a wrong type is a bug, answered by a TypeError and never by a crash.

#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace winnow {

/** Thrown after a JavaScript exception was set; unwinds to `guardCall`. */
struct PendingException {};

void check(napi_env env, napi_status status);
[[noreturn]] void throwTypeError(napi_env env, const char* message);

/** The arguments of a call; missing ones are `undefined`. */
template <size_t COUNT>
struct Arguments {
  Arguments(napi_env env, napi_callback_info info) {
    size_t count = COUNT;
    check(env, napi_get_cb_info(env, info, &count, values, nullptr, nullptr));
  }
  napi_value values[COUNT];
};

bool isUndefined(napi_env env, napi_value value);
double toNumber(napi_env env, napi_value value);
uint32_t toUint32(napi_env env, napi_value value);
bool toBoolean(napi_env env, napi_value value);
/** At most 63 bytes of a text. */
std::string toText(napi_env env, napi_value value);
/** All of a text. */
std::string toLongText(napi_env env, napi_value value);

/** The memory of a typed array of the given type; valid until JavaScript runs again. */
template <typename T>
struct ArrayView {
  T* data;
  size_t count;
};
void* typedArrayOf(napi_env env, napi_value value, napi_typedarray_type type, size_t* count);

inline ArrayView<float> toFloats(napi_env env, napi_value value) {
  size_t count = 0;
  void* data = typedArrayOf(env, value, napi_float32_array, &count);
  return {static_cast<float*>(data), count};
}
inline ArrayView<double> toDoubles(napi_env env, napi_value value) {
  size_t count = 0;
  void* data = typedArrayOf(env, value, napi_float64_array, &count);
  return {static_cast<double*>(data), count};
}
inline ArrayView<uint32_t> toWords(napi_env env, napi_value value) {
  size_t count = 0;
  void* data = typedArrayOf(env, value, napi_uint32_array, &count);
  return {static_cast<uint32_t*>(data), count};
}
inline ArrayView<int32_t> toIntegers(napi_env env, napi_value value) {
  size_t count = 0;
  void* data = typedArrayOf(env, value, napi_int32_array, &count);
  return {static_cast<int32_t*>(data), count};
}
inline ArrayView<uint8_t> toBytes(napi_env env, napi_value value) {
  size_t count = 0;
  void* data = typedArrayOf(env, value, napi_uint8_array, &count);
  return {static_cast<uint8_t*>(data), count};
}

/** A new typed array that holds a copy. */
napi_value makeArray(napi_env env, napi_typedarray_type type, const void* data, size_t count);
napi_value makeDoubles(napi_env env, const std::vector<double>& values);
napi_value makeNumber(napi_env env, double value);
napi_value makeText(napi_env env, const char* text);
napi_value makeUndefined(napi_env env);
/** An Error with a `code`. */
napi_value makeError(napi_env env, const char* code, const char* message);

/** Hands a shared object to JavaScript; it lives until JavaScript lets it go or `reset`s it. */
template <typename T>
napi_value makeHandle(napi_env env, const napi_type_tag& tag, std::shared_ptr<T> object) {
  auto* holder = new std::shared_ptr<T>(std::move(object));
  napi_value handle = nullptr;
  const auto finalize = [](napi_env, void* data, void*) {
    delete static_cast<std::shared_ptr<T>*>(data);
  };
  if (napi_create_external(env, holder, finalize, nullptr, &handle) != napi_ok) {
    delete holder;
    throw PendingException();
  }
  check(env, napi_type_tag_object(env, handle, &tag));
  return handle;
}

/** The object behind a handle of this type. */
template <typename T>
std::shared_ptr<T>& fromHandle(napi_env env, const napi_type_tag& tag, napi_value handle) {
  napi_valuetype type = napi_undefined;
  bool hasTag = false;
  check(env, napi_typeof(env, handle, &type));
  if (type == napi_external) check(env, napi_check_object_type_tag(env, handle, &tag, &hasTag));
  if (!hasTag) throwTypeError(env, "the handle is of another kind");
  void* data = nullptr;
  check(env, napi_get_value_external(env, handle, &data));
  auto& object = *static_cast<std::shared_ptr<T>*>(data);
  if (object == nullptr) throwTypeError(env, "what the handle stood for was released");
  return object;
}

/** Runs a call; C++ exceptions become JavaScript exceptions. */
template <typename Call>
napi_value guardCall(napi_env env, const Call& call) {
  try {
    return call();
  } catch (const PendingException&) {
  } catch (const std::bad_alloc&) {
    napi_throw(env, makeError(env, "ENOMEM", "the system has not enough memory"));
  }
  return nullptr;
}

}  // namespace winnow
