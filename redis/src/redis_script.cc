#include "stockade/redis/redis_script.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "stockade/base/log.h"
#include "stockade/redis/internal/sha1_hex.h"

namespace stockade {

std::string redis_internal::Sha1Hex(std::string_view text) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);  // For TLS, as tls.cc says: the first call decides.
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr) != 1) {
    base_internal::Fatal("redis: libcrypto has no SHA-1, which identifies scripts");
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

RedisScript::RedisScript(std::string_view source)
    : text_(
          std::make_shared<const Text>(Text{.source = std::string(source), .sha1 = redis_internal::Sha1Hex(source)})) {}

}  // namespace stockade
