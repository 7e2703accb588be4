#include "ack_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace flash_sale {

absl::StatusOr<std::unique_ptr<AckLog>> AckLog::Open(const std::string& path, File file) {
  const int create = file == File::kNew ? O_CREAT | O_EXCL : 0;
  const int fd = open(path.c_str(), O_WRONLY | create | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  return std::unique_ptr<AckLog>(new AckLog(fd));
}

AckLog::~AckLog() { close(fd_); }

absl::Status AckLog::Append(const Acknowledgement& answer) {
  const std::string line = answer.kind == Acknowledgement::Kind::kReserved
                               ? absl::StrCat("reserved ", answer.order_id, " ", answer.request_id, "\n")
                               : absl::StrCat("sold ", answer.order_id, "\n");
  const ssize_t written = write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("acknowledged.log: ", written < 0 ? std::strerror(errno) : "disk full"));
}

absl::StatusOr<std::vector<Acknowledgement>> ReadAckLog(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::vector<Acknowledgement> answers;
  std::string line;
  // At the end of the file without a newline getline() sets eof.
  while (std::getline(file, line) && !file.eof()) {
    std::istringstream words(line);
    std::string kind;
    Acknowledgement answer{.kind = Acknowledgement::Kind::kSold};
    words >> kind >> answer.order_id;
    if (kind == "reserved") {
      answer.kind = Acknowledgement::Kind::kReserved;
      words >> answer.request_id;
    }
    if (!words || (kind != "reserved" && kind != "sold")) {
      return absl::DataLossError(absl::StrCat(path, ": line ", answers.size() + 1, " is not an acknowledgement"));
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace flash_sale
