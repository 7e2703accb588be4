#ifndef STOCKADE_REDIS_HOST_NAME_H_
#define STOCKADE_REDIS_HOST_NAME_H_

#include <string_view>

namespace stockade::redis_internal {

// Whether the client may connect to a host that a server names like this. True if it has 1 to 255 bytes, all of them
// letters, digits or one of "-_.:%". All parsers of such names call this. So no two functions can read two different
// hosts in one name, as getaddrinfo(3) does, which stops at a NUL.
bool IsHostName(std::string_view host);

// Whether an entry of RedisOptions::allowed_hosts can be equal to the name of a host, or be the end of one.
bool IsAllowedHostEntry(std::string_view entry);

// Whether `host` is `allowed`, or ends with it if that begins with a dot. Both are in lower case. The end of a name
// does not match an address, or a name with an empty label before it.
bool MatchesAllowedHost(std::string_view host, std::string_view allowed);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_HOST_NAME_H_
