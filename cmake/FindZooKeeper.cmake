# ZooKeeper's C client, multi-threaded, which has neither a CMake package nor a .pc file. Installed with Stockade's own
# package, which needs it again.
#
# ZooKeeper::zookeeper_mt is the library; its header is <zookeeper/zookeeper.h>. ZooKeeper_VERSION is its version.
find_path(ZooKeeper_INCLUDE_DIR NAMES zookeeper/zookeeper.h)
find_library(ZooKeeper_LIBRARY NAMES zookeeper_mt)
mark_as_advanced(ZooKeeper_INCLUDE_DIR ZooKeeper_LIBRARY)

if(ZooKeeper_INCLUDE_DIR AND EXISTS "${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h")
  file(STRINGS "${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h" version_line REGEX "define ZOO_VERSION ")
  if(version_line MATCHES "\"([0-9.]+)\"")
    set(ZooKeeper_VERSION "${CMAKE_MATCH_1}")
  endif()
  unset(version_line)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZooKeeper REQUIRED_VARS ZooKeeper_LIBRARY ZooKeeper_INCLUDE_DIR
                                  VERSION_VAR ZooKeeper_VERSION)

if(ZooKeeper_FOUND AND NOT TARGET ZooKeeper::zookeeper_mt)
  find_package(Threads REQUIRED)
  add_library(ZooKeeper::zookeeper_mt UNKNOWN IMPORTED)
  set_target_properties(ZooKeeper::zookeeper_mt PROPERTIES
    IMPORTED_LOCATION "${ZooKeeper_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ZooKeeper_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS THREADED  # Without it the header has no calls that wait.
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
