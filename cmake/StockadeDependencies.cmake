# What the in-process parts cannot do without, and what an optional part is built for when it is found.
include(StockadeFindPackage)

foreach(package IN ITEMS Threads absl prometheus-cpp civetweb)
  stockade_find_package(${package} missing)
  if(missing)
    message(FATAL_ERROR "Stockade needs ${missing}")
  endif()
endforeach()

foreach(package IN ITEMS SQLite3 OpenSSL ZLIB hiredis LIBMARIADB ZooKeeper)
  stockade_find_package(${package} STOCKADE_MISSING_${package})
endforeach()
