#!/bin/sh
# SPDX-License-Identifier: MIT
# `make wheel`, and the Python tests with that wheel in a venv that has neither the sources nor the
# library, and uses the system's numpy and cffi; and with each other Python that has pip, numpy and
# cffi: those of PATH, or of RNL_TEST_PYTHONS. And `pip install ./python`, with a library that is
# installed where the loader does not search.
. "$(dirname "$0")/../lib/harness.sh"
[ "${have_PYTHON:-no}" = yes ] || skip_all 'there is no Python with cffi, numpy and Python.h'
[ -z "${sanitizer:-}" ] || skip_all 'a wheel is for interpreters without sanitizers'
$PYTHON -c 'import setuptools, ensurepip, pip, venv, wheel' 2>"$dir/err" ||
	skip_all "a wheel needs pip, setuptools, venv and wheel (make deps python): $(tail -n 1 "$dir/err")"
check 'make wheel' $MAKE -s wheel
wheel=$(ls "$PWD"/python/dist/*.whl)
name=${wheel##*/}
case ${name#"runnel-$VERSION-cp39-abi3-"} in
"linux_$(uname -m).whl") echo 'SKIP: no manylinux wheel, because auditwheel is missing or failed' >&2 ;;
manylinux_*"_$(uname -m).whl") ;;
*) complain "$name" ;;
esac
ends 'its name has the version and the system'
check 'a venv' $PYTHON -m venv --system-site-packages "$dir/venv"
check 'pip installs it' "$dir/venv/bin/pip" --disable-pip-version-check install -q --no-index --no-deps "$wheel"
module=$(find "$dir/venv" -name '_runnel*.so')
readelf -d "$module" >"$dir/out" 2>"$dir/err" || complain 'readelf'
prints_not 'NEEDED.*(runnel|urcu|cudart)'
prints_not 'STATIC_TLS'
ends 'it needs no other library, and loads late'
nm -D --defined-only "$module" >"$dir/out" 2>"$dir/err" || complain 'nm'
prints 'PyInit__runnel'
prints_not ' rnl_'
ends 'the names of the library are its own'
export PYTHONDONTWRITEBYTECODE=1
cp -r "$srcdir/tests/python" "$dir/tests"
(cd "$dir" && exec venv/bin/python tests/check_python.py) >"$dir/out" 2>"$dir/err" || complain "status $?"
prints '^ok - jobs: a value comes back'
grep -q "^$dir/venv/.*runnel/__init__" <<-END || complain 'it is another package'
	$("$dir/venv/bin/python" -c 'import runnel; print(runnel.__file__)')
END
ends 'the tests of the package pass there'

main=$($PYTHON -c 'import sys; print(sys.version_info[:2])')
for other in ${RNL_TEST_PYTHONS-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14}; do
	which=$("$other" -c 'import sys, cffi, numpy, pip; print(sys.version_info[:2])' 2>/dev/null) || continue
	[ "$which" != "$main" ] || continue
	check "pip of $which installs it" "$other" -m pip --disable-pip-version-check install -q --no-index \
		--no-deps --target="$dir/other" "$wheel"
	(cd "$dir" && PYTHONPATH=$dir/other exec "$other" tests/check_python.py) >"$dir/out" 2>"$dir/err" ||
		complain "status $?"
	prints '^ok - jobs: a value comes back'
	ends "the tests pass with $which"
	rm -rf "$dir/other"
done

check 'make install' $MAKE -s install DESTDIR="$dir/root"
pc=$(find "$dir/root" -name runnel.pc)
sed -i "s|^prefix=|&$dir/root|" "$pc"
cp -r "$srcdir/python" "$dir/python"
check 'pip install ./python' env PKG_CONFIG_PATH="${pc%/*}" \
	"$dir/venv/bin/pip" --disable-pip-version-check install -q --no-index --no-deps \
	--no-build-isolation --force-reinstall "$dir/python"
"$dir/venv/bin/python" -c 'import runnel
with runnel.Pool(1, "host") as pool: print(pool.submit(pow, 2, 5).result())' >"$dir/out" 2>"$dir/err" || complain "status $?"
prints '^32$'
grep -q "$dir/root/.*librunnel" <<-END || complain 'it is not the installed library'
	$(ldd "$(find "$dir/venv" -name '_runnel*.so')")
END
ends 'it finds the library that it was built with'
done_testing
