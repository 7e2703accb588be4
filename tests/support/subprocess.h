#ifndef STOCKADE_TESTS_SUPPORT_SUBPROCESS_H_
#define STOCKADE_TESTS_SUPPORT_SUBPROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stockade::testing {

// A program that runs beside the test, its output gathered as it comes. Killed, if it still runs, with the object.
// Time-outs are ctest's. For one thread.
class Subprocess {
 public:
  // Looks `argv[0]` up in PATH. `input` is its standard input. What cannot be started exits with 127.
  explicit Subprocess(const std::vector<std::string>& argv, const std::string& input = "")
      : Subprocess(argv, kInputStaysOpen) {
    Send(input);
    CloseInput();
  }

  // Its standard input is what Send() is given, until the object ends or Wait() is called.
  enum OpenInput { kInputStaysOpen };
  Subprocess(const std::vector<std::string>& argv, OpenInput) : out_(MakePipe()), err_(MakePipe()) {
    // A program that ends before it has read all is no reason for SIGPIPE to end the test.
    signal(SIGPIPE, SIG_IGN);
    const Pipe in = MakePipe();
    // By a thread that ends after the program: where the program asks for a signal at its parent's death, the thread
    // that started it is the parent.
    readers_.emplace_back([this, argv, in] {
      Spawn(argv, in);
      Gather(out_.read_end, out_text_);
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pid_.has_value(); });
    lock.unlock();
    readers_.emplace_back([this] { Gather(err_.read_end, err_text_); });
    input_ = in.write_end;
  }

  ~Subprocess() {
    if (!status_) Kill(SIGKILL);
    Wait();
  }

  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  // -1 where it could not be started.
  pid_t pid() const { return *pid_; }

  void Kill(int signal) {
    if (!status_) kill(*pid_, signal);
  }

  // Whether it runs no more.
  bool ended() const {
    if (status_) return true;
    siginfo_t state = {};
    waitid(P_PID, static_cast<id_t>(*pid_), &state, WEXITED | WNOHANG | WNOWAIT);
    return state.si_pid != 0;
  }

  // Blocks while the pipe is full.
  void Send(const std::string& text) {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t written = write(input_, text.data() + done, text.size() - done);
      if (written <= 0) break;
      done += static_cast<size_t>(written);
    }
  }

  // Blocks until the standard output has `text`, or has ended: whether it has.
  bool AwaitOutput(const std::string& text) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return out_text_.ended || out_text_.text.find(text) != std::string::npos; });
    return out_text_.text.find(text) != std::string::npos;
  }

  // Blocks until the program and all that holds its output has ended. Its exit status; 128 and the signal where one
  // ended it.
  int Wait() {
    CloseInput();
    if (!status_) {
      int status = 0;
      while (waitpid(*pid_, &status, 0) < 0 && errno == EINTR) {
      }
      status_ = status;
    }
    for (std::thread& reader : readers_) reader.join();
    readers_.clear();
    return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
  }

  std::string out() const { return Text(out_text_); }
  std::string err() const { return Text(err_text_); }

 private:
  struct Pipe {
    int read_end;
    int write_end;
  };
  struct Output {
    std::string text;
    bool ended = false;
  };

  static Pipe MakePipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) abort();
    return {ends[0], ends[1]};
  }

  void Spawn(const std::vector<std::string>& argv, const Pipe& in) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.read_end, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out_.write_end, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err_.write_end, STDERR_FILENO);
    std::vector<char*> args;
    for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
    args.push_back(nullptr);
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, args[0], &actions, nullptr, args.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in.read_end);
    close(out_.write_end);
    close(err_.write_end);
    const std::lock_guard lock(mutex_);
    if (error != 0) status_ = 127 << 8;
    pid_ = error == 0 ? pid : -1;
    changed_.notify_all();
  }

  void CloseInput() {
    if (input_ >= 0) close(input_);
    input_ = -1;
  }

  void Gather(int fd, Output& output) {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) {
      const std::lock_guard lock(mutex_);
      output.text.append(buffer, static_cast<size_t>(got));
      changed_.notify_all();
    }
    close(fd);
    const std::lock_guard lock(mutex_);
    output.ended = true;
    changed_.notify_all();
  }

  std::string Text(const Output& output) const {
    const std::lock_guard lock(mutex_);
    return output.text;
  }

  Pipe out_;
  Pipe err_;
  int input_ = -1;             // The end to write to; negative once closed.
  std::optional<pid_t> pid_;   // Written once, before the constructor returns.
  std::optional<int> status_;  // As waitpid() gives it; none while it may run.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Output out_text_;  // This and the next are guarded by mutex_.
  Output err_text_;
  std::vector<std::thread> readers_;
};

struct RunResult {
  int status;
  std::string out;
  std::string err;
};

// Runs a program to its end.
inline RunResult RunToEnd(const std::vector<std::string>& argv, const std::string& input = "") {
  Subprocess process(argv, input);
  const int status = process.Wait();
  return {status, process.out(), process.err()};
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_SUBPROCESS_H_
