#ifndef STOCKADE_REDIS_REDIS_SCRIPT_H_
#define STOCKADE_REDIS_REDIS_SCRIPT_H_

#include <memory>
#include <string>
#include <string_view>

#include "stockade/base/export.h"

namespace stockade {

// A Lua script, which Redis runs atomically. Create it once and keep it; copies are cheap and share the text.
// Immutable; any thread may read it.
class STOCKADE_EXPORT RedisScript {
 public:
  // O(size of source), because it computes the hash.
  explicit RedisScript(std::string_view source);

  // The source. Valid while a copy of the script exists.
  std::string_view source() const { return text_->source; }
  // The SHA-1 in 40 hexadecimal digits, by which Redis identifies the script.
  std::string_view sha1() const { return text_->sha1; }

 private:
  struct Text {
    std::string source;
    std::string sha1;
  };
  std::shared_ptr<const Text> text_;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_SCRIPT_H_
