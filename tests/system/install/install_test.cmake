# SPDX-License-Identifier: Apache-2.0
# Installs into a scratch folder, builds examples/ with find_package(exeunt), and runs both programs on a tiny model.
set(scratch ${BUILD}/install_test)
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${status}:\n${out}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${scratch}/prefix --component dev)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/examples -B ${scratch}/build -DCMAKE_PREFIX_PATH=${scratch}/prefix
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build ${scratch}/build)

file(WRITE ${scratch}/texts "A great film\nDull, boring\n")
foreach(program classify_c classify_cpp)
  execute_process(COMMAND ${scratch}/build/${program} ${SOURCE}/tests/fixtures/checkpoints/bert-deebert layer:2
    INPUT_FILE ${scratch}/texts OUTPUT_VARIABLE out RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT out MATCHES "^(positive|negative)\t0\\.[0-9]+\tlayer 2\n(positive|negative)\t0\\.[0-9]+\tlayer 2\n$")
    message(FATAL_ERROR "${program}: status ${status}, got:\n${out}")
  endif()
  # A model without heads, and one that is not there: one message, the status of the command.
  foreach(model tests/fixtures/checkpoints/bert-backbone no-such-model)
    execute_process(COMMAND ${scratch}/build/${program} ${SOURCE}/${model} INPUT_FILE ${scratch}/texts
      OUTPUT_VARIABLE out ERROR_VARIABLE error RESULT_VARIABLE status)
    if(NOT status EQUAL 4 OR NOT out STREQUAL "" OR NOT error MATCHES "error: ")
      message(FATAL_ERROR "${program} ${model}: status ${status}, got:\n${out}${error}")
    endif()
  endforeach()
endforeach()

# A blank line and one that is not UTF-8 end both programs with the status and the words of a text that is refused.
string(ASCII 97 32 255 invalid)
foreach(bad " " "${invalid}")
  file(WRITE ${scratch}/bad "${bad}\n")
  foreach(program classify_c classify_cpp)
    execute_process(COMMAND ${scratch}/build/${program} ${SOURCE}/tests/fixtures/checkpoints/bert-deebert INPUT_FILE ${scratch}/bad
      OUTPUT_VARIABLE out ERROR_VARIABLE error RESULT_VARIABLE status)
    if(NOT status EQUAL 4 OR NOT out STREQUAL "" OR NOT error MATCHES "error: .*(empty text|valid UTF-8)")
      message(FATAL_ERROR "${program}: status ${status}, got:\n${out}${error}")
    endif()
  endforeach()
endforeach()

# A program over the C library needs no package of the static ones, and no CUDA toolkit; one over those is told what it lacks.
file(WRITE ${scratch}/c_only/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(c_only LANGUAGES C)
find_package(exeunt REQUIRED COMPONENTS \${WANTED})
add_executable(c_only ${SOURCE}/examples/c/classify.c)
target_link_libraries(c_only PRIVATE exeunt::shared)\n")
foreach(package fmt nlohmann_json OpenSSL ZLIB CUDAToolkit)
  list(APPEND none -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
file(READ ${scratch}/prefix/lib/cmake/exeunt/exeunt-config.cmake config)
string(REPLACE "if(OFF)" "if(ON)" config "${config}")  # as a build with CUDA has it
file(WRITE ${scratch}/prefix/lib/cmake/exeunt/exeunt-config.cmake "${config}")
set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S ${scratch}/c_only -B ${scratch}/c_only/build -DCMAKE_PREFIX_PATH=${scratch}/prefix ${none})
run(${configure})
run(${CMAKE_COMMAND} --build ${scratch}/c_only/build)
execute_process(COMMAND ${configure} -DWANTED=engine RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
if(status EQUAL 0 OR NOT out MATCHES "exeunt::engine needs CUDAToolkit")
  message(FATAL_ERROR "a consumer of exeunt::engine without its packages: status ${status}, got:\n${out}")
endif()

# The same through pkg-config, from a tree that was moved.
file(RENAME ${scratch}/prefix ${scratch}/moved)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${scratch}/moved/lib/pkgconfig pkg-config --cflags --libs exeunt
  OUTPUT_VARIABLE flags RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(flags UNIX_COMMAND "${flags}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "pkg-config exeunt ended with ${status}")
endif()
run(cc ${SOURCE}/examples/c/classify.c -o ${scratch}/by_pkg_config ${flags} -Wl,-rpath,${scratch}/moved/lib)
execute_process(COMMAND ${scratch}/by_pkg_config ${SOURCE}/tests/fixtures/checkpoints/bert-deebert INPUT_FILE ${scratch}/texts
  OUTPUT_VARIABLE out RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT out MATCHES "^(positive|negative)\t")
  message(FATAL_ERROR "the program of pkg-config: status ${status}, got:\n${out}")
endif()
file(RENAME ${scratch}/moved ${scratch}/prefix)

# Only what the C interface promises may be seen from outside.
execute_process(COMMAND nm --dynamic --defined-only ${scratch}/prefix/lib/libexeunt.so OUTPUT_VARIABLE symbols)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
foreach(line ${lines})
  if(NOT line MATCHES " exeunt_[a-z_]+(@@EXEUNT_0)?$" AND NOT line MATCHES " EXEUNT_0")
    message(FATAL_ERROR "libexeunt.so shows more than its interface: ${line}")
  endif()
endforeach()
execute_process(COMMAND readelf --dynamic ${scratch}/prefix/lib/libexeunt.so OUTPUT_VARIABLE dynamic)
if(NOT dynamic MATCHES "SONAME[^\n]*libexeunt\\.so\\.0")
  message(FATAL_ERROR "libexeunt.so has another SONAME than libexeunt.so.0")
endif()

# The command as a user installs it: its manual, its completion, and a trainer that finds the model it starts from.
set(prefix ${scratch}/command)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component command)
foreach(file bin/exeunt bin/exeunt-lab share/man/man1/exeunt.1 share/man/man1/exeunt-train.1 share/bash-completion/completions/exeunt
    share/bash-completion/completions/exeunt-lab share/fish/vendor_completions.d/exeunt-lab.fish share/man/man1/exeunt-lab.1
    share/zsh/site-functions/_exeunt share/fish/vendor_completions.d/exeunt.fish)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()
file(READ ${prefix}/lib/systemd/system/exeunt.service unit)
if(NOT unit MATCHES "\nExecStart=${prefix}/bin/exeunt serve ")
  message(FATAL_ERROR "the installed unit does not start the installed command:\n${unit}")
endif()
if(TRAINER)
  file(WRITE ${scratch}/own.csv "text,label\n")
  foreach(row RANGE 1 20)
    file(APPEND ${scratch}/own.csv "good number ${row},yes\nbad number ${row},no\n")
  endforeach()
  file(REMOVE_RECURSE ${scratch}/run)
  run(${prefix}/bin/exeunt train --data ${scratch}/own.csv --max-steps 1 --out ${scratch}/run)
  if(NOT EXISTS ${scratch}/run/model.safetensors)
    message(FATAL_ERROR "the installed command trained nothing into ${scratch}/run")
  endif()
endif()
