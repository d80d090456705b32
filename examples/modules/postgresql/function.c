/* SPDX-License-Identifier: MIT */
/*
 * A PostgreSQL function, adler32(text), whose work runs on a pool. It needs PostgreSQL 15, or later.
 *
 *	cc -shared -fPIC -I.. -I$(pg_config --includedir-server) -o adler32.so function.c worker.c \
 *		../adler/adler.c ../adler/device.c $(pkg-config --cflags --libs runnel)
 *	cp adler32.so $(pg_config --pkglibdir)
 *	postgresql.conf: shared_preload_libraries = 'adler32'
 *	(for a GPU ../adler/device.cu, by nvcc, in place of device.c, and runnel.device = 'cuda')
 *	CREATE FUNCTION adler32(text) RETURNS bigint AS 'adler32', 'runnel_adler32'
 *		LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
 *
 * DESIGN
 * A background worker has the only pool (worker.c). Each backend could have one, but then each would
 * start CUDA at its first call and occupy memory of the GPU for its context, and kernels of different
 * backends would take turns.
 * A backend copies its text to a slot and sleeps on its latch. A cancel of the query, a timeout, or the
 * end of the backend leave that sleep at once, by longjmp() or exit(). They may, because no job uses
 * memory of the backend: the slot is abandoned, and the worker frees it when the job is done.
 * DROP FUNCTION and CREATE FUNCTION may come at any time; another version of the library needs a
 * restart of the server, as each library of shared_preload_libraries does.
 */
#include "slots.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include <runnel.h>

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(runnel_adler32);

struct shared *shared;
char *runnel_device;
static shmem_request_hook_type next_request;
static shmem_startup_hook_type next_startup;

/* On ERROR and FATAL. The worker may turn the slot between two tries. */
static void leave(int code, Datum arg)
{
	struct slot *slot = (struct slot *)DatumGetPointer(arg);

	while (!turn(slot, FULL, FREE) && !turn(slot, RUNNING, ABANDONED) && !turn(slot, DONE, FREE))
		;
	SetLatch(shared->worker);		/* it cancels an abandoned job */
}

PGDLLEXPORT Datum runnel_adler32(PG_FUNCTION_ARGS)
{
	const text *arg = PG_GETARG_TEXT_PP(0);
	const uint32 bytes = VARSIZE_ANY_EXHDR(arg);
	struct slot *slot;
	uint32 sum;
	int i, result;

	if (!shared)
		ereport(ERROR, errmsg("the library of adler32() is not in shared_preload_libraries"));
	if (bytes > TEXT_MAX)
		ereport(ERROR, errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			errmsg("adler32() takes at most %d bytes", TEXT_MAX));
	for (i = shared->worker ? 0 : NR_SLOTS; i < NR_SLOTS && !turn(&shared->slots[i], FREE, TAKEN); i++)
		;
	if (i == NR_SLOTS)
		ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_RESOURCES), errmsg("adler32() is busy"));
	slot = &shared->slots[i];
	slot->backend = MyLatch;
	slot->bytes = bytes;
	memcpy(shared->texts[i], VARDATA_ANY(arg), bytes);
	turn(slot, TAKEN, FULL);
	PG_ENSURE_ERROR_CLEANUP(leave, PointerGetDatum(slot));
	{
		SetLatch(shared->worker);
		while (pg_atomic_read_u32(&slot->state) != DONE) {
			WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave, PointerGetDatum(slot));
	pg_read_barrier();
	sum = slot->sum;
	result = slot->result;
	turn(slot, DONE, FREE);
	if (result)
		ereport(ERROR, errcode(ERRCODE_SYSTEM_ERROR), errmsg("adler32(): %s", rnl_strerror(result)));
	PG_RETURN_INT64(sum);
}

static void request_memory(void)
{
	if (next_request)
		next_request();
	RequestAddinShmemSpace(sizeof(*shared));
}

/* In the postmaster, again after a crash of a backend; the others inherit the address. */
static void init_memory(void)
{
	bool found;

	if (next_startup)
		next_startup();
	shared = ShmemInitStruct("runnel", sizeof(*shared), &found);
	if (!found)
		memset(shared, 0, sizeof(*shared));
}

PGDLLEXPORT void _PG_init(void)
{
	BackgroundWorker worker = {
		.bgw_name = "runnel", .bgw_type = "runnel", .bgw_flags = BGWORKER_SHMEM_ACCESS,
		.bgw_start_time = BgWorkerStart_PostmasterStart, .bgw_restart_time = 1,
		.bgw_library_name = "adler32", .bgw_function_name = "runnel_worker",
	};

	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomStringVariable("runnel.device", "Device of the pool.", NULL, &runnel_device, "host",
				   PGC_POSTMASTER, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("runnel");
	next_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	next_startup = shmem_startup_hook;
	shmem_startup_hook = init_memory;
	RegisterBackgroundWorker(&worker);
}
