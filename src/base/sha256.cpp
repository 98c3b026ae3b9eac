#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/file.h"

namespace lockstep::base {
namespace {

void require(int success) {
  if (success != 1) throw std::runtime_error("libcrypto cannot compute SHA-256");
}

EVP_MD_CTX* new_context() {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  if (!context) throw std::bad_alloc();
  return context;
}

}  // namespace

Sha256::Sha256() : context_(new_context()) {
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() const {
  const std::unique_ptr<EVP_MD_CTX, Free> copy(new_context());
  require(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  std::array<unsigned char, 32> digest = {};
  require(EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const unsigned byte : digest) {
    result += kDigits[byte >> 4U];
    result += kDigits[byte & 15U];
  }
  return result;
}

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

std::string sha256_of_file(const std::string& path) {
  File file(path, O_RDONLY);
  Sha256 sum;
  std::vector<std::byte> piece(std::size_t{1} << 20U);
  while (const std::size_t got = file.read(piece)) sum.update(std::span(piece).first(got));
  return sum.hex();
}

}  // namespace lockstep::base
