#!/bin/sh
# Cargo calls this in the place of the compiler for the crates of this workspace (RUSTC_WORKSPACE_WRAPPER),
# `rustc` being its first argument. It adds what tells libFuzzer which code an input reaches. Build scripts,
# and what they are made of, and the one example that is built along, are linked without libFuzzer; libraries
# of others are built as for the tests, so that they are built once.
case " $* " in
*" --crate-name build_script_"* | *" --crate-name guestscope_carry "* | \
    *" --crate-name nvidia_ml_stub "* | *" proc-macro "*) exec "$@" ;;
esac
exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
