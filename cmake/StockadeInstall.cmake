# The install target: libraries, public headers, and the package that find_package(stockade) finds. A distribution's two
# packages are its components stockade_runtime, empty where libraries are static, and stockade_development.
include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY STOCKADE_COMPONENTS)
get_property(header_dirs GLOBAL PROPERTY STOCKADE_HEADER_DIRS)
get_property(left_out GLOBAL PROPERTY STOCKADE_LEFT_OUT)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/stockade")

# A file of targets per component, so that a user of one component needs only the dependencies of that one, and a table
# of them.
set(table "set(_stockade_components ${components})\nset(_stockade_left_out ${left_out})\n")
foreach(component IN LISTS components)
  install(TARGETS stockade_${component} EXPORT stockade-${component}
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT stockade_development
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT stockade_runtime
                  NAMELINK_COMPONENT stockade_development)
  install(EXPORT stockade-${component} NAMESPACE stockade:: DESTINATION "${package_dir}"
          FILE stockade-${component}-targets.cmake COMPONENT stockade_development)

  get_target_property(public stockade_${component} STOCKADE_PUBLIC)
  get_target_property(private stockade_${component} STOCKADE_PRIVATE)
  set(linked ${public} ${private})
  set(below ${linked})
  list(FILTER below INCLUDE REGEX "^stockade::")
  list(TRANSFORM below REPLACE "^stockade::" "")
  if(BUILD_SHARED_LIBS)
    set(linked ${public})  # A program that links a shared library does not need its private libraries.
  endif()
  set(packages ${linked})
  list(FILTER packages EXCLUDE REGEX "^stockade::")
  list(TRANSFORM packages REPLACE "^PkgConfig::" "")
  list(TRANSFORM packages REPLACE "^SQLite::" "")
  list(TRANSFORM packages REPLACE "::.*$" "")
  list(REMOVE_DUPLICATES packages)
  string(APPEND table "set(_stockade_below_${component} ${below})\nset(_stockade_packages_${component} ${packages})\n")
endforeach()
foreach(component IN LISTS left_out)
  get_property(missing GLOBAL PROPERTY STOCKADE_LEFT_OUT_${component})
  string(APPEND table "set(_stockade_missing_${component} \"${missing}\")\n")
endforeach()

foreach(dir IN LISTS header_dirs)
  install(DIRECTORY "${dir}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT stockade_development
          FILES_MATCHING PATTERN "*.h")
endforeach()

install(FILES "${PROJECT_SOURCE_DIR}/base/tsan.supp" DESTINATION "${CMAKE_INSTALL_DATADIR}/stockade"
        COMPONENT stockade_development)

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/stockade-config.cmake.in" "${CMAKE_CURRENT_BINARY_DIR}/stockade-config.cmake"
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/stockade-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES
          "${CMAKE_CURRENT_BINARY_DIR}/stockade-config.cmake"
          "${CMAKE_CURRENT_BINARY_DIR}/stockade-config-version.cmake"
          "${CMAKE_CURRENT_LIST_DIR}/FindZooKeeper.cmake"
          "${CMAKE_CURRENT_LIST_DIR}/StockadeFindPackage.cmake"
        DESTINATION "${package_dir}" COMPONENT stockade_development)
