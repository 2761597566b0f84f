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
