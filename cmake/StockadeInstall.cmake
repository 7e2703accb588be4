# The install target: libraries, public headers, and the package that find_package(stockade) finds. A distribution's
# packages are its components stockade_runtime, empty where libraries are static, stockade_development and stockade_tools.
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

# For operators: tools, dashboards, rules and alerts, statements that audit, and the documents that the runbook leads to.
# An alert's runbook_url leads to those, or to STOCKADE_DOCS_URL.
set(STOCKADE_DOCS_URL "" CACHE STRING "Where alerts say that docs/RUNBOOK.md is; empty: where it is installed")
if(TARGET ledger_audit)
  install(TARGETS ledger_audit RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT stockade_tools)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/metrics/grafana" "${PROJECT_SOURCE_DIR}/metrics/prometheus"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/stockade" COMPONENT stockade_tools
        PATTERN tests EXCLUDE PATTERN README.md EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/docs/ledger_audit.sql" "${PROJECT_SOURCE_DIR}/docs/fleet_audit.sql"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/stockade" COMPONENT stockade_tools)
file(GLOB documents "${PROJECT_SOURCE_DIR}/docs/*.md")
install(FILES ${documents} DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT stockade_tools)
install(CODE "
  set(url \"${STOCKADE_DOCS_URL}\")
  if(url STREQUAL \"\")
    set(docs \"${CMAKE_INSTALL_DOCDIR}\")
    cmake_path(ABSOLUTE_PATH docs BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\" NORMALIZE)
    set(url \"file://\${docs}\")
  endif()
  set(alerts \"${CMAKE_INSTALL_DATADIR}/stockade/prometheus/rules/alerts.yml\")
  cmake_path(ABSOLUTE_PATH alerts BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
  set(alerts \"\$ENV{DESTDIR}\${alerts}\")
  file(READ \"\${alerts}\" text)
  string(REPLACE \"runbook_url: docs/\" \"runbook_url: \${url}/\" text \"\${text}\")
  file(WRITE \"\${alerts}\" \"\${text}\")
" COMPONENT stockade_tools)

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
