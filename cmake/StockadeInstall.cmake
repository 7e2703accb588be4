# The install target: libraries, public headers, and the package that find_package(stockade) finds.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY STOCKADE_LIBRARIES)
get_property(header_dirs GLOBAL PROPERTY STOCKADE_HEADER_DIRS)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/stockade")

install(TARGETS ${libraries} EXPORT stockade
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(dir IN LISTS header_dirs)
  install(DIRECTORY "${dir}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT stockade NAMESPACE stockade:: DESTINATION "${package_dir}" FILE stockade-targets.cmake)

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/stockade-config.cmake.in" "${CMAKE_CURRENT_BINARY_DIR}/stockade-config.cmake"
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/stockade-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
if(ZooKeeper_FOUND)
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/FindZooKeeper.cmake" DESTINATION "${package_dir}")
endif()
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/stockade-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/stockade-config-version.cmake" DESTINATION "${package_dir}")
