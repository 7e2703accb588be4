# What the in-process parts cannot do without, and what an optional part is built for when it is found.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(prometheus-cpp REQUIRED)  # Has no version file: name no version.
find_package(SQLite3 3.37 QUIET)       # STRICT tables. For stockade::ledger_sqlite.

# For stockade::redis and stockade::locks_mysql. By pkg-config, because Debian's have no CMake packages.
find_package(OpenSSL QUIET COMPONENTS Crypto)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(hiredis QUIET IMPORTED_TARGET GLOBAL hiredis>=0.14)
  pkg_check_modules(LIBMARIADB QUIET IMPORTED_TARGET GLOBAL libmariadb>=3.3)
endif()

find_package(ZooKeeper 3.6 QUIET)  # zookeeper_init2(). For stockade::locks_zookeeper.
