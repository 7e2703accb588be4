#include "options.h"

#include "absl/strings/str_cat.h"
#include "common/parse_number.h"

namespace ticket_office {
namespace {

using examples::ParseNumber;

// A ticket that (d) sells twice is the second one.
constexpr int64_t kFewestTickets = 2;
constexpr int64_t kMostTickets = 1000;
// In (e) one crashes, one is paused, and somebody is to sell meanwhile.
constexpr int64_t kFewestSellers = 3;
constexpr int64_t kMostSellers = 32;

absl::Status SetOption(const std::string& name, const std::string& text, Options& options) {
  if (name == "--tickets") return ParseNumber(name, text, kFewestTickets, kMostTickets, options.tickets);
  if (name == "--sellers") return ParseNumber(name, text, kFewestSellers, kMostSellers, options.sellers);
  if (name == "--scenario") {
    if (text.size() != 1 || text[0] < 'a' || text[0] > 'e') {
      return absl::InvalidArgumentError(absl::StrCat("--scenario takes one letter from a to e, not '", text, "'"));
    }
    options.scenario = text;
    return absl::OkStatus();
  }
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " takes a URL, not an empty string"));
  if (name == "--redis") {
    options.redis = text;
    return absl::OkStatus();
  }
  if (text.starts_with("local:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--locks ", text, ": these locks are local to one process, but each seller is a process"));
  }
  options.locks = text;
  return absl::OkStatus();
}

bool TakesValue(const std::string& name) {
  return name == "--redis" || name == "--locks" || name == "--tickets" || name == "--sellers" || name == "--scenario";
}

}  // namespace

absl::StatusOr<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      continue;
    }
    std::string value;
    const size_t equals = name.find('=');
    const bool joined = equals != std::string::npos;
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (!TakesValue(name)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown option '", argv[i], "' (--help lists them)"));
    }
    if (!joined) {
      if (i + 1 == argc) return absl::InvalidArgumentError(absl::StrCat(name, " takes a value"));
      value = argv[++i];
    }
    if (absl::Status set = SetOption(name, value, options); !set.ok()) return set;
  }
  return options;
}

const char* UsageText() {
  return R"txt(usage: ticket_office [options]
Several processes sell tickets, which are a plain number in Redis: without a lock, with three common home-made locks,
and with Stockade's lock.

  --redis URL       Redis with the number: redis://, unix://, redis+sentinel://, redis+cluster:// (default: the
                    program starts and stops its own redis-server)
  --locks URL       server for Stockade's locks in scenario e (default: the one with the tickets)
                      redis://, unix://, redis+sentinel://, redis+cluster://
                      zookeeper://HOST[:PORT][,HOST...]  with ?session_timeout_ms=10000 at ZooKeeper's usual tick of 2 s
                      mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE  with ?create_schema=1 the first time
  --tickets N       number of tickets, 2 to 1000 (20)
  --sellers N       number of processes that sell them, 3 to 32 (4)
  --scenario X      run only this scenario (default: all)
                      a  no lock
                      b  SET NX without expiry, and a holder crashes
                      c  SET NX with expiry, and a holder is paused past it
                      d  the same, released by DEL without checking the owner
                      e  Stockade's lock, with the crash and the pause
  --help            print this text

Exit status: 0 a to d failed and e did not, 1 otherwise, 2 invalid input or an unusable server.
)txt";
}

}  // namespace ticket_office
