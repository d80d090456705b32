/* SPDX-License-Identifier: MIT */
/*
 * Shared by the examples that run on many machines: MPI's errors, and the device of a rank.
 *
 * After ranks_begin(), MPI reports errors to the caller.  A rank that cannot go on ends the whole
 * job: by ranks_must(), or by a non-zero exit status, which makes mpirun stop the other ranks.
 */
#ifndef EXAMPLES_RANKS_H
#define EXAMPLES_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <runnel.h>
#include <runnel/device.h>

#include "program.h"

/* Ends the job if @ret is an error of MPI: prints "program: @what: ERROR". */
static inline void ranks_must(int ret, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "an error without a text";
	int length;

	if (ret == MPI_SUCCESS)
		return;
	(void)MPI_Error_string(ret, text, &length);
	program_warn("%s: %s", what, text);
	MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
	_Exit(EXIT_FAILURE);
}

/* Starts MPI.  @level: the thread level for MPI_Init_thread(). */
static inline void ranks_begin(int level, int *rank, int *nr)
{
	static char buffer[BUFSIZ];
	int given;

	ranks_must(MPI_Init_thread(NULL, NULL, level, &given), "MPI_Init_thread");
	if (given < level)
		program_die("this MPI does not support calls by several threads");
	ranks_must(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "error handler");
	ranks_must(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank");
	ranks_must(MPI_Comm_size(MPI_COMM_WORLD, nr), "MPI_Comm_size");
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));	/* MPICH turned buffering off */
}

/*
 * Returns the device of this rank: @device, or @text.  If the user leaves the choice open ("auto"
 * or "cuda"), the ranks of one host take its GPUs in turn.  Context: all ranks must call it,
 * whatever their device.  @text: buffer for the name.
 */
static inline const char *ranks_device(const char *device, char text[16])
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	unsigned nr = 0;
	MPI_Comm host;
	int local;

	ranks_must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
				       &host), "the ranks of this host");
	ranks_must(MPI_Comm_rank(host, &local), "MPI_Comm_rank");
	ranks_must(MPI_Comm_free(&host), "MPI_Comm_free");
	if (strcmp(device, "auto") && strcmp(device, "cuda"))
		return device;
	for (; nr <= (unsigned)local; nr++) {
		snprintf(text, 16, "cuda:%u", nr);
		if (rnl_device_describe(NULL, text, 0, &info))
			break;
	}
	if (!nr)
		return device;		/* no GPU answers */
	snprintf(text, 16, "cuda:%u", (unsigned)local % nr);
	return text;
}

#endif /* EXAMPLES_RANKS_H */
