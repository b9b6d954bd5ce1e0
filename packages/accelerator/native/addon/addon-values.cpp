// Conversions of values between JavaScript and C++ that need no template.

#include "addon/addon-values.h"

#include <cstring>
#include <new>

namespace winnow {

void check(napi_env env, napi_status status) {
  if (status == napi_ok) return;
  bool isPending = false;
  napi_is_exception_pending(env, &isPending);
  if (!isPending) napi_throw_type_error(env, nullptr, "an argument has the wrong type");
  throw PendingException();
}

void throwTypeError(napi_env env, const char* message) {
  napi_throw_type_error(env, nullptr, message);
  throw PendingException();
}

bool isUndefined(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  check(env, napi_typeof(env, value, &type));
  return type == napi_undefined;
}

double toNumber(napi_env env, napi_value value) {
  double number = 0;
  check(env, napi_get_value_double(env, value, &number));
  return number;
}

uint32_t toUint32(napi_env env, napi_value value) {
  const double number = toNumber(env, value);
  if (!(number >= 0 && number <= 4294967295.0)) throwTypeError(env, "a count is out of range");
  return static_cast<uint32_t>(number);
}

bool toBoolean(napi_env env, napi_value value) {
  bool boolean = false;
  check(env, napi_get_value_bool(env, value, &boolean));
  return boolean;
}

std::string toText(napi_env env, napi_value value) {
  char text[64] = {};
  size_t length = 0;
  check(env, napi_get_value_string_utf8(env, value, text, sizeof text, &length));
  return std::string(text, length);
}

std::string toLongText(napi_env env, napi_value value) {
  size_t length = 0;
  check(env, napi_get_value_string_utf8(env, value, nullptr, 0, &length));
  // One byte more, for the zero that is written after a text.
  std::string text(length + 1, '\0');
  check(env, napi_get_value_string_utf8(env, value, text.data(), length + 1, &length));
  text.resize(length);
  return text;
}

void* typedArrayOf(napi_env env, napi_value value, napi_typedarray_type type, size_t* count) {
  bool isTypedArray = false;
  check(env, napi_is_typedarray(env, value, &isTypedArray));
  if (!isTypedArray) throwTypeError(env, "an argument is no typed array");
  napi_typedarray_type actual = napi_int8_array;
  void* data = nullptr;
  check(env, napi_get_typedarray_info(env, value, &actual, count, &data, nullptr, nullptr));
  if (actual != type) throwTypeError(env, "a typed array has the wrong element type");
  return data;
}

napi_value makeArray(napi_env env, napi_typedarray_type type, const void* data, size_t count) {
  napi_value buffer = nullptr;
  napi_value array = nullptr;
  void* target = nullptr;
  const size_t bytes = count * 4;
  check(env, napi_create_arraybuffer(env, bytes, &target, &buffer));
  if (bytes > 0) std::memcpy(target, data, bytes);
  check(env, napi_create_typedarray(env, type, count, buffer, 0, &array));
  return array;
}

napi_value makeDoubles(napi_env env, const std::vector<double>& values) {
  napi_value buffer = nullptr;
  napi_value array = nullptr;
  void* target = nullptr;
  const size_t bytes = values.size() * sizeof(double);
  check(env, napi_create_arraybuffer(env, bytes, &target, &buffer));
  if (bytes > 0) std::memcpy(target, values.data(), bytes);
  check(env, napi_create_typedarray(env, napi_float64_array, values.size(), buffer, 0, &array));
  return array;
}

napi_value makeNumber(napi_env env, double value) {
  napi_value number = nullptr;
  check(env, napi_create_double(env, value, &number));
  return number;
}

napi_value makeText(napi_env env, const char* text) {
  napi_value value = nullptr;
  check(env, napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value));
  return value;
}

napi_value makeUndefined(napi_env env) {
  napi_value value = nullptr;
  check(env, napi_get_undefined(env, &value));
  return value;
}

napi_value makeError(napi_env env, const char* code, const char* message) {
  napi_value error = nullptr;
  check(env, napi_create_error(env, makeText(env, code), makeText(env, message), &error));
  return error;
}

}  // namespace winnow
