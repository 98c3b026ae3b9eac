#include "text/to_utf8.h"

#include <iconv.h>
#include <strings.h>

namespace lockstep::text {

void ToUtf8::Close::operator()(void* converter) const { iconv_close(converter); }

std::optional<ToUtf8> ToUtf8::from(const std::string& charset) {
  ToUtf8 result;
  if (strcasecmp(charset.c_str(), "UTF-8") == 0 || strcasecmp(charset.c_str(), "UTF8") == 0)
    return result;
  const iconv_t opened = iconv_open("UTF-8", charset.c_str());
  if (opened == reinterpret_cast<iconv_t>(-1)) return std::nullopt;
  result.converter_.reset(opened);
  return result;
}

std::optional<std::string> ToUtf8::operator()(std::string_view text) const {
  if (!converter_) return std::string(text);
  constexpr std::size_t kMostPerByte = 12;  // TSCII: three characters of three bytes for one byte
  constexpr std::size_t kFailed = static_cast<std::size_t>(-1);
  std::string result(kMostPerByte * text.size() + kMostPerByte, '\0');
  char* in = const_cast<char*>(text.data());  // iconv does not write to it
  char* out = result.data();
  std::size_t in_left = text.size(), out_left = result.size();
  iconv(converter_.get(), nullptr, nullptr, nullptr, nullptr);
  if (iconv(converter_.get(), &in, &in_left, &out, &out_left) == kFailed ||
      iconv(converter_.get(), nullptr, nullptr, &out, &out_left) == kFailed)
    return std::nullopt;
  result.resize(result.size() - out_left);
  return result;
}

}  // namespace lockstep::text
