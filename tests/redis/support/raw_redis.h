#ifndef STOCKADE_TESTS_REDIS_SUPPORT_RAW_REDIS_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_RAW_REDIS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace stockade::testing {

struct RawReply {
  // RESP2's: '+' status, '-' error, ':' integer, '$' string, '*' array, each with its text or its items; besides, '_'
  // for nil and '!' for none: the connection ended, or said nothing for 20 seconds.
  char type = '!';
  std::string text = {};
  std::vector<RawReply> items = {};

  bool lost() const { return type == '!'; }
  bool operator==(std::string_view other) const { return text == other; }
  // The text of what follows `name` in a list of names and values; empty where there is none.
  std::string ValueOf(std::string_view name) const;
};

std::ostream& operator<<(std::ostream& out, const RawReply& reply);

// A blocking connection that looks at a server behind a client's back: it shares nothing with the client under test.
// Not thread-safe.
class RawRedis {
 public:
  // To 127.0.0.1; where nobody listens, every reply is lost.
  explicit RawRedis(uint16_t port, const std::string& address = "127.0.0.1");
  explicit RawRedis(const std::string& unix_socket);
  ~RawRedis();

  RawRedis(const RawRedis&) = delete;
  RawRedis& operator=(const RawRedis&) = delete;

  RawReply Call(const std::vector<std::string>& command);
  // The two halves of it, for pipelines, messages and bytes that are no command.
  void Send(std::string_view bytes);
  RawReply Read();

  static std::string Encode(const std::vector<std::string>& command);

 private:
  void LimitWaits();
  bool ReadMore();
  bool ReadLine(std::string& line);

  int fd_;
  std::string unread_;
};

// One command by a connection of its own.
RawReply CallRedis(uint16_t port, const std::vector<std::string>& command);

// The field of INFO's answer, or of another in its form.
std::string InfoField(std::string_view info, std::string_view field);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_RAW_REDIS_H_
