#ifndef STOCKADE_BENCH_FLEET_HIREDIS_POOL_H_
#define STOCKADE_BENCH_FLEET_HIREDIS_POOL_H_

#include <hiredis.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stockade/base/log.h"

namespace stockade::bench {

// Blocking connections, as programs without this library have them. Each thread uses its own one, so no thread waits
// for another one's. A failure aborts.
class HiredisPool {
 public:
  using Reply = std::unique_ptr<redisReply, void (*)(redisReply*)>;

  // `url` is redis://127.0.0.1:<port>.
  HiredisPool(std::string_view url, size_t connections) {
    const std::string_view digits = url.substr(url.rfind(':') + 1);
    int port = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), port);
    for (size_t i = 0; i < connections; ++i) connections_.emplace_back(redisConnect("127.0.0.1", port), &redisFree);
  }

  template <typename... Words>
  Reply Run(size_t connection, const Words&... words) {
    const std::array<std::string_view, sizeof...(words)> views = {std::string_view(words)...};
    std::array<const char*, sizeof...(words)> texts;
    std::array<size_t, sizeof...(words)> sizes;
    for (size_t i = 0; i < views.size(); ++i) {
      texts[i] = views[i].data();
      sizes[i] = views[i].size();
    }
    auto* reply = static_cast<redisReply*>(
        redisCommandArgv(connections_[connection].get(), static_cast<int>(views.size()), texts.data(), sizes.data()));
    if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) base_internal::Fatal("bench: hiredis got no reply");
    return Reply(reply, [](redisReply* old) { freeReplyObject(old); });
  }

  // The text of a reply; empty if it is nil.
  static std::string_view TextOf(const Reply& reply) {
    return reply->type == REDIS_REPLY_NIL ? std::string_view() : std::string_view(reply->str, reply->len);
  }

 private:
  std::vector<std::unique_ptr<redisContext, void (*)(redisContext*)>> connections_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_HIREDIS_POOL_H_
