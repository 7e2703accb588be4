#ifndef STOCKADE_EXAMPLES_COMMON_STOP_SIGNAL_H_
#define STOCKADE_EXAMPLES_COMMON_STOP_SIGNAL_H_

namespace examples {

// From its construction to its destruction, SIGINT and SIGTERM end Wait() and not the process. One object at a time.
class StopSignal {
 public:
  StopSignal();
  // Ends the process if a signal came that Wait() did not report.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // True once a signal has come. False once `other`, a file descriptor, can be read; -1: none.
  bool Wait(int other = -1);
  // Whether a signal has come, without waiting.
  bool Came();

 private:
  bool reported_ = false;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_STOP_SIGNAL_H_
