# SPDX-License-Identifier: MIT
"""The C side of the package: the module _runnel, made by cffi of the library's headers.

The headers are read as they are, so a declaration stands in one place, and the C compiler compares
what cffi makes of it with them. binding.c has the little that is not in the headers.

usage: binding.py FILE.c        writes the module's source, for the Makefile; setup.py needs no file
env:   RUNNEL_INCLUDE  the folder of runnel.h; RUNNEL_LIBS  what to link. Without them pkg-config
       tells where the installed library is.
"""
import os
import re
import shlex
import subprocess
import sys

import cffi

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = ("runnel.h", "runnel/class.h", "runnel/device.h", "runnel/guard.h", "runnel/hold.h",
           "runnel/kernel.h", "runnel/batch.h", "runnel/map.h", "runnel/memory.h", "runnel/more.h", "runnel/stats.h", "runnel/trace.h")
# What Python is called for; "+C" because binding.c names them.
CALLED = """
extern "Python+C" {
	void py_enter(void);
	int py_batch(const struct rnl_batch *batch);
	int py_chunk(const struct rnl_chunk *chunk);
	void py_kernel(void *handle);
	void py_log(void *arg, enum rnl_log_level level, const char *msg);
	void py_forget(void *owner);
}
"""


def declarations(header):
    """What cffi can read of a header: no comments, no macros but numbers, no C++, no bodies."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"#ifdef __cplusplus\n(?:(?!#else|#endif).*\n)*"
                  r"(?:#else\n((?:(?!#endif).*\n)*))?#endif.*\n", r"\1", text)
    text = re.sub(r"^static inline [^;{]*\{.*?^\}\n", "", text, flags=re.S | re.M)
    text = re.sub(r"^#(?!define \w+\s+\(?-?\d+\)?\s*$)(?:.*\\\n)*.*\n", "", text, flags=re.M)
    return re.sub(r"#define (\w+)\s+\(?(-?\d+)\)?", r"#define \1 \2", text.replace("RNL_API ", ""))


def pkg_config(*args):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *args, "runnel"]
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("runnel: there is no installed library: `make install` it first, or run "
                 "`make wheel` in its tree")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def include_dir():
    return os.environ.get("RUNNEL_INCLUDE") or pkg_config("--variable=includedir")


def builder():
    include = include_dir()
    libs = os.environ.get("RUNNEL_LIBS")
    # The loader has to be told of the folders that pkg-config says beside the system's.
    paths = [] if libs else [path[2:] for path in shlex.split(pkg_config("--libs-only-L"))]
    libs = libs or pkg_config("--libs")
    made = cffi.FFI()
    made.cdef("".join(declarations(read(include, name)) for name in HEADERS))
    own = read(HERE, "binding.c")
    made.cdef(re.search(r"^/\* cffi reads from here \*/\n(.*?)^/\* to here \*/$", own,
                        re.S | re.M)[1])
    made.cdef(CALLED)
    made.set_source("_runnel", own, include_dirs=[include],
                    runtime_library_dirs=paths, extra_link_args=["-Wl,--exclude-libs,ALL", *shlex.split(libs)])
    return made


if __name__ == "__main__":
    builder().emit_c_code(sys.argv[1])
