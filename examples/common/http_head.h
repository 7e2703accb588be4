#ifndef STOCKADE_EXAMPLES_COMMON_HTTP_HEAD_H_
#define STOCKADE_EXAMPLES_COMMON_HTTP_HEAD_H_

#include <httplib.h>

#include <optional>
#include <string_view>

namespace examples {

// The headers of a request's head, which begins with the request's line and ends with the empty line. They are as the
// client sent them, without the blanks around the values: httplib would decode percent signs, and skip lines that it
// does not understand. Nothing if a line is not a header by RFC 9112: no colon, a blank before it, a continued line, a
// line that does not end with CR LF, or a control character.
std::optional<httplib::Headers> ParseHeaders(std::string_view head);

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_HTTP_HEAD_H_
