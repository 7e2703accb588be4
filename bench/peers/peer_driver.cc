#include "peers/peer_driver.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);  // Far more than filling 4 GiB takes.

std::string NameOf(Distribution distribution) {
  switch (distribution) {
    case Distribution::kUniform: return "uniform";
    case Distribution::kZipf: return "zipf";
    case Distribution::kHotKey: return "hot-key";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> FindPeerDriver(const std::filesystem::path& folder, const std::string& peer) {
  const std::filesystem::path driver = folder / peer / "driver";
  if (access(driver.c_str(), X_OK) == 0) return driver.string();
  std::string why;
  std::ifstream note(folder / peer / "why");
  if (!std::getline(note, why) || why.empty()) why = "its driver is not built; run bench/peers/build";
  return absl::NotFoundError(base_internal::AbslView(why));
}

absl::StatusOr<std::unique_ptr<PeerProcess>> StartPeerDriver(const std::string& driver, const CacheWorkload& workload,
                                                             const Scale& scale) {
  absl::StatusOr<std::unique_ptr<PeerProcess>> process = PeerProcess::Start(
      {driver, "--keys", std::to_string(workload.keys), "--threads", std::to_string(workload.threads), "--value-bytes",
       std::to_string(workload.value_bytes), "--writes-percent", std::to_string(workload.writes_percent),
       "--distribution", NameOf(workload.distribution), "--key-kind",
       workload.key_kind == KeyKind::kDense ? "dense" : "random", "--capacity", std::to_string(workload.Capacity()),
       "--warm-up-ms", std::to_string(scale.Sized(10, 1500))});
  if (!process.ok()) return process;
  const absl::StatusOr<std::string> line = (*process)->ReadLine(kPatience);
  if (!line.ok()) return line.status();
  if (*line != "ready") {
    return absl::InvalidArgumentError(base_internal::Concat("peer '", driver, "' said '", *line, "', not 'ready'"));
  }
  const absl::StatusOr<std::string> sum = (*process)->Ask(base_internal::Concat("checksum ", kCheckedDraws), kPatience);
  if (!sum.ok()) return sum.status();
  if (*sum != std::to_string(CacheDraws::Checksum(workload, kCheckedDraws))) {
    return absl::InvalidArgumentError(base_internal::Concat("peer '", driver, "' draws other keys than this program"));
  }
  return process;
}

absl::StatusOr<double> RunPeerDriver(PeerProcess& driver, absl::Duration span) {
  return driver.AskForRate(base_internal::Concat("run ", absl::ToInt64Milliseconds(span)), span + kPatience);
}

absl::StatusOr<int64_t> ReplayByPeerDriver(PeerProcess& driver, size_t room, std::span<const uint32_t> keys) {
  std::string path = std::filesystem::temp_directory_path() / "stockade_keys.XXXXXX";
  const int unique = mkstemp(path.data());
  if (unique < 0) return absl::ErrnoToStatus(errno, base_internal::Concat("cannot create ", path));
  close(unique);
  std::ofstream file(path);
  for (const uint32_t key : keys) file << key << '\n';
  file.close();
  const bool is_written = file.good();
  const absl::StatusOr<std::string> answer = driver.Ask(base_internal::Concat("replay ", room, " ", path), kPatience);
  unlink(path.c_str());
  if (!is_written) return absl::UnavailableError(base_internal::Concat("cannot write ", path));
  if (!answer.ok()) return answer.status();
  int64_t hits = 0;
  if (absl::SimpleAtoi(*answer, &hits) && hits >= 0 && std::cmp_less_equal(hits, keys.size())) return hits;
  return absl::InvalidArgumentError(base_internal::Concat("the peer said '", *answer, "' to a replay"));
}

}  // namespace stockade::bench
