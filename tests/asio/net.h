#ifndef STOCKADE_TESTS_ASIO_NET_H_
#define STOCKADE_TESTS_ASIO_NET_H_

#include <utility>  // Boost 1.74 forgets it.

#ifdef STOCKADE_USE_BOOST_ASIO
#include <boost/asio.hpp>
#else
#include <asio.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/deferred.hpp>
#endif

#include "stockade/asio/cache.h"
#include "stockade/asio/inventory.h"
#include "stockade/asio/locks.h"

namespace stockade::testing {

namespace net = ::STOCKADE_ASIO_NAMESPACE;

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_ASIO_NET_H_
