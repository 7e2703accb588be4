#include "stockade/redis/redis_script.h"

#define OPENSSL_SUPPRESS_DEPRECATED  // See Sha1Hex().
#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "stockade/redis/internal/sha1_hex.h"

namespace stockade {

// Not by EVP_Digest(): a thread may need this after OpenSSL has cleaned up at the end of the process. These functions
// use nothing that is cleaned up.
std::string redis_internal::Sha1Hex(std::string_view text) {
  SHA_CTX sha1;
  SHA1_Init(&sha1);
  SHA1_Update(&sha1, text.data(), text.size());
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1_Final(digest, &sha1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), sizeof digest));
}

RedisScript::RedisScript(std::string_view source)
    : text_(
          std::make_shared<const Text>(Text{.source = std::string(source), .sha1 = redis_internal::Sha1Hex(source)})) {}

}  // namespace stockade
