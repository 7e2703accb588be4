#include "stockade/version.h"

namespace stockade {

std::string_view LibraryVersion() { return STOCKADE_VERSION; }

}  // namespace stockade
