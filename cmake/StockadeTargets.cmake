# stockade_add_library(<component> [SOURCES ...] [PUBLIC ...] [PRIVATE ...])
#
# The library stockade_<component>, called stockade::<component> in the tree and installed alike, where it is the
# component of that name. Without sources it is headers alone. Its public headers are in the calling folder's include/. Our own flags stay private: nothing
# but C++20 reaches a user. Static unless BUILD_SHARED_LIBS is on. All that it links is named in the call, as targets:
# the package is made from that.
function(stockade_add_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  set(target stockade_${component})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE})
    stockade_common_flags(${target})
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      # Objects of users may live until after main(), and call the libraries.
      target_compile_options(${target} PRIVATE -Wexit-time-destructors)
    endif()
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(stockade::${component} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${component}
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden  # base/export.h
    VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}  # Until 1.0 each minor version may break.
    STOCKADE_PUBLIC "${arg_PUBLIC}"
    STOCKADE_PRIVATE "${arg_PRIVATE}")
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} ${scope} ${arg_PUBLIC})
  set_property(GLOBAL APPEND PROPERTY STOCKADE_COMPONENTS ${component})
  set_property(GLOBAL APPEND PROPERTY STOCKADE_HEADER_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include/")
endfunction()

# stockade_can_build(<component> <result> <package>...): whether all other dependencies of the component are there. If
# not, it says so now, and again to users that ask the installed package for the component.
function(stockade_can_build component result)
  set(missing "")
  foreach(package IN LISTS ARGN)
    list(APPEND missing ${STOCKADE_MISSING_${package}})
  endforeach()
  list(JOIN missing ", and " missing)
  set(${result} TRUE PARENT_SCOPE)
  if(missing)
    set(${result} FALSE PARENT_SCOPE)
    message(STATUS "stockade::${component} is left out: it needs ${missing}")
    set_property(GLOBAL APPEND PROPERTY STOCKADE_LEFT_OUT ${component})
    set_property(GLOBAL PROPERTY STOCKADE_LEFT_OUT_${component} "${missing}")
  endif()
endfunction()

# Warnings and sanitizers.
function(stockade_common_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # The warnings of g++ 12 about libstdc++'s headers, in optional and string, are false.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict -Wno-tsan)
    if(CMAKE_UNITY_BUILD)  # The sources are included, so their anonymous namespaces look like a header's.
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
  if(STOCKADE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(STOCKADE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${STOCKADE_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${STOCKADE_SANITIZE})
    if(STOCKADE_SANITIZE MATCHES thread)
      target_compile_definitions(${target} PUBLIC STOCKADE_TSAN)  # base/tsan.h
    endif()
    if(STOCKADE_SANITIZE MATCHES undefined)
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=undefined)
    endif()
  endif()
endfunction()

# The flags of a target that is not a component: a test, an example, a benchmark, or a part of one. The test presets compile
# these without optimisation, which takes half of the time; a target that computes for longer than it compiles has the
# property STOCKADE_OPTIMIZED.
function(stockade_own_flags target)
  stockade_common_flags(${target})
  separate_arguments(flags UNIX_COMMAND "${STOCKADE_PROGRAM_FLAGS}")
  target_compile_options(${target} PRIVATE "$<$<NOT:$<BOOL:$<TARGET_PROPERTY:STOCKADE_OPTIMIZED>>>:${flags}>")
endfunction()

# stockade_add_executable(<target> SOURCES ... [LIBRARIES ...])
function(stockade_add_executable target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${target} ${arg_SOURCES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  stockade_own_flags(${target})
endfunction()
