#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // libcrypto's EVP_MD_CTX

namespace lockstep::base {

/// The SHA-256 of bytes that come in pieces; the same text as sha256sum prints.
class Sha256 {
 public:
  Sha256();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }

  /// Of all bytes so far, as 64 hexadecimal digits; more may follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_of_file(const std::string& path);

}  // namespace lockstep::base
