// The main() of a fuzz target where libFuzzer is not there: runs a corpus, then mutations of it.
//
//   <fuzzer> <file or folder>... [--runs=N] [--seconds=N] [--seed=N] [--index=N] [--timeout=N]
//
// Runs the corpus and then --runs mutations, or for --seconds, whichever ends first; the corpus alone without either.
// --index runs that one input, in this process, for a debugger. --timeout is in seconds, for one input.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace stockade::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

struct Options {
  std::vector<std::filesystem::path> paths = {};
  std::optional<uint64_t> runs = {};
  std::optional<uint64_t> seconds = {};
  std::optional<uint64_t> seed = {};
  std::optional<uint64_t> index = {};
  std::optional<uint64_t> timeout = {};

  // By default what no input takes, not even under a sanitizer on a busy machine.
  unsigned TimeoutSeconds() const { return static_cast<unsigned>(timeout.value_or(20)); }
};

// What the runner leaves for its parent, in memory that they share and that outlives any crash.
struct Progress {
  std::atomic<uint64_t> running = kNone;  // The number of the input that runs.
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> finished = false;
};

[[noreturn]] void Usage(std::string_view why) {
  std::fprintf(stderr,
               "%.*s\nusage: <fuzzer> <file or folder>... [--runs=N] [--seconds=N] [--seed=N] [--index=N] "
               "[--timeout=N]\n",
               static_cast<int>(why.size()), why.data());
  std::exit(2);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  const std::pair<std::string_view, std::optional<uint64_t>*> numbers[] = {{"--runs=", &options.runs},
                                                                           {"--seconds=", &options.seconds},
                                                                           {"--seed=", &options.seed},
                                                                           {"--index=", &options.index},
                                                                           {"--timeout=", &options.timeout}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with("--")) {
      options.paths.emplace_back(argument);
      continue;
    }
    const auto* const number =
        std::ranges::find_if(numbers, [&](const auto& each) { return argument.starts_with(each.first); });
    uint64_t value = 0;
    if (number == std::end(numbers) || !absl::SimpleAtoi(argument.substr(number->first.size()), &value)) {
      Usage("'" + argument + "'?");
    }
    *number->second = value;
  }
  return options;
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string contents(std::istreambuf_iterator<char>(file), {});
  if (!file) Usage("cannot read '" + path.string() + "'");
  return contents;
}

// Sorted, so that a seed means the same on every machine.
std::vector<std::string> ReadCorpus(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  if (files.empty()) Usage("there is no corpus");
  std::vector<std::string> corpus;
  corpus.reserve(files.size());
  for (const std::filesystem::path& file : files) corpus.push_back(Contents(file));
  return corpus;
}

void RunInput(const std::string& input) {
  // A copy without a terminating NUL, so that a sanitizer sees a read beyond the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void RunAll(const Mutator& mutator, const Options& options, Progress& progress) {
  const auto end = SteadyClock::now() + std::chrono::seconds(options.seconds.value_or(0));
  const uint64_t corpus = mutator.corpus_size();
  const bool mutates = options.runs.has_value() || options.seconds.has_value();
  const uint64_t last = !mutates ? corpus : options.runs.has_value() ? corpus + *options.runs : kNone;
  for (uint64_t index = 0; index < last; ++index) {
    if (index >= corpus && options.seconds.has_value() && SteadyClock::now() >= end) break;
    const std::string input = mutator.Input(index);
    progress.running.store(index, std::memory_order_relaxed);
    alarm(options.TimeoutSeconds());
    RunInput(input);
    alarm(0);
    progress.done.store(index + 1, std::memory_order_relaxed);
  }
  progress.finished.store(true, std::memory_order_relaxed);
}

std::string HowItEnded(int status, const Options& options) {
  if (!WIFSIGNALED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "hang: over " + std::to_string(options.TimeoutSeconds()) + " s";
  return std::string("signal ") + strsignal(WTERMSIG(status));
}

// Runs everything in a child, because only another process can report every way there is to die.
int RunInChild(const Mutator& mutator, const Options& options) {
  void* const shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) Usage("mmap failed");
  Progress& progress = *new (shared) Progress;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) Usage("fork failed");
  if (child == 0) {
    // Dies with its parent, whom ctest ends when time is out.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    RunAll(mutator, options, progress);
    std::exit(0);  // And not _exit(): LeakSanitizer looks now.
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) Usage("waitpid failed");
  }
  std::printf("ran %llu inputs, %zu of them the corpus\n", static_cast<unsigned long long>(progress.done.load()),
              mutator.corpus_size());
  if (status == 0 && progress.finished.load()) return 0;
  const uint64_t index = progress.running.load();
  if (progress.finished.load()) {
    std::printf("FAILED when all had run: %s\n", HowItEnded(status, options).c_str());
  } else if (index == kNone) {
    std::printf("FAILED before the first input: %s\n", HowItEnded(status, options).c_str());
  } else {
    std::printf("FAILED at --index=%llu: %s\ninput in hex: %s\n", static_cast<unsigned long long>(index),
                HowItEnded(status, options).c_str(), absl::BytesToHexString(mutator.Input(index)).c_str());
  }
  return 1;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  std::random_device device;
  const uint64_t seed = options.seed.value_or(device());
  const Mutator mutator(ReadCorpus(options.paths), seed);
  std::printf("--seed=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  if (!options.index.has_value()) return RunInChild(mutator, options);
  RunInput(mutator.Input(*options.index));
  return 0;
}

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) { return stockade::testing::Main(argc, argv); }
