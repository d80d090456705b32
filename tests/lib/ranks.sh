# SPDX-License-Identifier: MIT
# Starts the ranks of an MPI program.  A script sources this file after harness.sh.
#
# env: MPIRUN  starts the ranks (mpirun); have_MPI  no: configure did not find MPI
mpirun=${MPIRUN:-mpirun}
# In a chroot without /sys, Open MPI would complain on standard error.
export HWLOC_HIDE_ERRORS=2
# Open MPI 4 and 5: allow root, allow more ranks than CPUs on any CPU, print no messages.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_execute_quiet=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
# A container may forbid a process to read another process's memory.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# MPI keeps memory until the process ends; these leaks are not the program's.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

[ "${have_MPI:-yes}" = yes ] || skip_all "$program_name over MPI is not built: configure found no MPI"
command -v "$mpirun" >/dev/null || skip_all "there is no $mpirun"
timeout 60 "$mpirun" -n 2 true >"$dir/out" 2>"$dir/err" </dev/null ||
	skip_all "$mpirun starts no ranks here: $(cat "$dir/err" "$dir/out" | grep . | sed 1q)"

ranks() {	# ranks NR COMMAND ... [: -n NR COMMAND ...]: ends after four minutes, with 124
	timeout $((240 * ${RNL_TEST_SCALE:-1})) "$mpirun" -n "$@"
}
