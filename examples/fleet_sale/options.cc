#include "options.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/parse_number.h"

namespace fleet_sale {
namespace {

using examples::ParseNumber;

// Of fewer units, some faults would not find a unit at their Redis node.
constexpr int64_t kLeastStock = 100;
constexpr int64_t kMostStock = 100'000;
constexpr int64_t kMostBuyers = 1'000'000;

bool TakesValue(const std::string& name) {
  return name == "--buyers" || name == "--stock" || name == "--seconds" || name == "--port";
}

absl::Status SetOption(const std::string& name, const std::string& text, Options& options) {
  if (name == "--buyers") return ParseNumber<int64_t>(name, text, 2 * kLeastStock, kMostBuyers, options.buyers);
  if (name == "--stock") return ParseNumber<int64_t>(name, text, kLeastStock, kMostStock, options.stock);
  if (name == "--seconds") return ParseNumber<int64_t>(name, text, 1, 3600, options.seconds);
  return ParseNumber<uint16_t>(name, text, 0, 65535, options.port);
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
    if (name == "--serve") {
      options.serve = true;
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
  if (options.buyers < 2 * options.stock) {
    return absl::InvalidArgumentError(absl::StrCat("--buyers must be at least twice --stock, so that units sell out: ",
                                                   options.buyers, " buyers for ", options.stock, " units"));
  }
  return options;
}

const char* UsageText() {
  return R"txt(usage: fleet_sale [options]
Four processes sell one product over three Redis nodes and MariaDB, while a process is killed, a Redis node is rolled
back, MariaDB is killed, and another Redis node is emptied: first as many services are written, then with Stockade. The
program starts and stops all servers itself, in temporary directories (of $TMPDIR, or /tmp).

  --buyers N     buyers in the sale (50000)
  --stock N      units for sale (2000)
  --seconds N    time over which the first buyers arrive, as many as there are units (8)
  --port N       port of --serve on 127.0.0.1 (9465; 0: a free port)
  --serve        serve a web page that shows and repeats the sale, until SIGINT or SIGTERM
  --help         print this text

Exit status: 0 the audit of Stockade's sale passed and all units are sold, 1 not, 2 invalid input or a server that
cannot be started, 130 stopped by SIGINT or SIGTERM before the audit.
)txt";
}

}  // namespace fleet_sale
