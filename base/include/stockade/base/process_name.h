#ifndef STOCKADE_BASE_PROCESS_NAME_H_
#define STOCKADE_BASE_PROCESS_NAME_H_

#include <string>

#include "stockade/base/export.h"

namespace stockade::base_internal {

// The name of this process in a server's list of clients. The program's file name in printable ASCII without blanks, at
// most 64 characters; others are '_'. Empty if the system does not know it.
STOCKADE_EXPORT std::string ProgramName();
// ProgramName(), '-' and the id of the process, which another one than the parent has after fork().
STOCKADE_EXPORT std::string ProcessName();

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_PROCESS_NAME_H_
