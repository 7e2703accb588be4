#ifndef STOCKADE_EXAMPLES_FLASH_SALE_ACK_LOG_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_ACK_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace flash_sale {

// The answers that buyers got, kept apart from the ledger, so that after a crash one can be checked against the other.
// One line per answer: "reserved <order id> <request id>" or "sold <order id>". Each is one write(2) to an O_APPEND
// file after the answer, so it survives a kill -9 (but no power cut: only the ledger is synced).
struct Acknowledgement {
  enum class Kind { kReserved, kSold };
  Kind kind;
  int64_t order_id = 0;
  std::string request_id = {};  // Of kReserved.
};

// Thread-safe.
class AckLog {
 public:
  enum class File { kNew, kExisting };
  static absl::StatusOr<std::unique_ptr<AckLog>> Open(const std::string& path, File file);
  ~AckLog();
  AckLog(const AckLog&) = delete;
  AckLog& operator=(const AckLog&) = delete;

  absl::Status Append(const Acknowledgement& answer);

 private:
  explicit AckLog(int fd) : fd_(fd) {}
  const int fd_;
};

// All lines but a last one without a newline, which was not written whole. NotFound: no such file. DataLoss: a line
// that AckLog does not write.
absl::StatusOr<std::vector<Acknowledgement>> ReadAckLog(const std::string& path);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_ACK_LOG_H_
