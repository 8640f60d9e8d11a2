# Compiler options of our own code, and the two functions every module's CMakeLists.txt uses.
option(PAGODA_WERROR "Treat warnings in our own code as errors" OFF)
option(PAGODA_COVERAGE "Instrument for gcov" OFF)
set(PAGODA_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")

find_program(PAGODA_CCACHE ccache)
if(PAGODA_CCACHE)
  # Relative paths in the key, so that a second checkout or build folder reuses the objects of the first.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${PAGODA_CCACHE})
endif()
find_program(PAGODA_MOLD mold)
if(PAGODA_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PAGODA_SANITIZE)
  # GCC 12's analysis of maybe-uninitialized values errs on instrumented code, as on std::regex.
  add_compile_options(-fsanitize=${PAGODA_SANITIZE} -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${PAGODA_SANITIZE})
  if(PAGODA_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(PAGODA_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

add_library(pagoda_options INTERFACE)
target_include_directories(pagoda_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(pagoda_options INTERFACE -Wall -Wextra -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(pagoda_options INTERFACE -Wno-restrict)  # "x" + std::string warns wrongly: GCC bug 105329
endif()
if(PAGODA_WERROR)
  target_compile_options(pagoda_options INTERFACE -Werror)
endif()

# pagoda_module(NAME SOURCES a.cc... DEPS other modules and libraries...)
# A static library pagoda_NAME; includes are written from src/ ("kv/block_pool.h").
function(pagoda_module name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_library(pagoda_${name} STATIC ${A_SOURCES})
  target_link_libraries(pagoda_${name} PUBLIC pagoda_options ${A_DEPS})
endfunction()

# pagoda_test(NAME SOURCES a_test.cc... DEPS libraries... [LABEL unit|golden|integration|slow] [TIMEOUT s])
# One GoogleTest binary, one ctest entry. Tests find handed reference data through PAGODA_SHARED
# (default: the folder `shared` beside the checkout) and skip with a message where it is absent.
function(pagoda_test name)
  cmake_parse_arguments(A "" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS} pagoda_options GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE PAGODA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
endfunction()
