/* SPDX-License-Identifier: MIT */
/* Translation units that include runnel/cuda.h; units.h has the design. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/unit.h>

#include "device/units.h"
#include "sys/abi.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/log.h"

#define UNITS_MAX 1024u
#define RUNTIMES_MAX 64u
#define PATH_BYTES 4096u
#define NAP_NS 20000u

typedef int units_ask_fn(void);

struct unit {
	const struct rnl__cuda_unit *id;	/* NULL: free; under the lock */
	uint32_t given;			/* the unit's flags; under the lock */
	_Atomic(uintptr_t) text, end;	/* end 0: free, or changing */
	_Atomic uint32_t flags;
};

/* A copy of the CUDA runtime; the lock protects `id`. */
struct runtime {
	const void *id;			/* NULL: free */
	_Atomic(units_ask_fn *) ask;	/* NULL: free */
	_Atomic(const char *) path;	/* file of the module with `ask`; "": the program */
	_Atomic uint32_t serial;	/* increases; see unit_reader.known */
};

/* A thread that may ask runtimes for errors. */
struct unit_reader {
	_Atomic uint32_t sequence;	/* odd: the thread asks; only the thread writes it */
	uint32_t known;			/* the thread has asked the runtimes up to this serial */
	struct unit_reader *next;	/* under the lock */
};

_Atomic uint32_t rnl__units_have;

static struct {
	pthread_mutex_t lock;
	_Atomic uint32_t nr_units, nr_runtimes;	/* entries used since the start */
	_Atomic uint32_t serial;
	struct unit_reader *readers;
	struct unit units[UNITS_MAX];
	struct runtime runtimes[RUNTIMES_MAX];
} units = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* NULL: the thread does not ask runtimes. */
static _Thread_local struct unit_reader *own __attribute__((tls_model("initial-exec")));

/* ---- forks --------------------------------------------------------------- */

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_result;

static void units_lock(void)
{
	pthread_mutex_lock(&units.lock);
}

static void units_unlock(void)
{
	pthread_mutex_unlock(&units.lock);
}

/* In the child, only the forking thread exists, and may join again: frees the others' readers. */
static void units_in_child(void)
{
	struct unit_reader *next;

	for (struct unit_reader *reader = units.readers; reader; reader = next) {
		next = reader->next;
		if (reader != own)
			free(reader);
	}
	units.readers = NULL;
	units_unlock();
}

static void follow_forks(void)
{
	fork_result = -pthread_atfork(units_lock, units_unlock, units_in_child);
}

/* ---- asking -------------------------------------------------------------- */

int rnl__units_join(void)
{
	struct unit_reader *reader = own;	/* in a forked child, the parent's */

	pthread_once(&fork_once, follow_forks);
	if (!reader)
		reader = fork_result ? NULL : calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	units_lock();
	reader->known = 0;
	reader->next = units.readers;
	units.readers = reader;
	units_unlock();
	own = reader;
	return 0;
}

void rnl__units_leave(void)
{
	units_lock();
	for (struct unit_reader **at = &units.readers; *at; at = &(*at)->next) {
		if (*at == own) {
			*at = own->next;
			break;
		}
	}
	units_unlock();
	free(own);
	own = NULL;
}

static uint32_t own_sequence(void)
{
	/* relaxed: only this thread writes it */
	return atomic_load_explicit(&own->sequence, memory_order_relaxed);
}

static void begin_asking(void)
{
	/*
	 * [units.A1] full barrier: the odd sequence is written before `ask` is read, so a removal
	 * sees that we ask, or we see that the function is gone; pairs with [units.R1]
	 */
	atomic_exchange_explicit(&own->sequence, own_sequence() + 1, memory_order_acq_rel);
	rnl__mb_after_rmw();
}

static void end_asking(void)
{
	/* [units.A2] release: our calls have ended before this; pairs with [units.R2] */
	atomic_store_explicit(&own->sequence, own_sequence() + 1, memory_order_release);
}

static units_ask_fn *ask_of(const struct runtime *r)
{
	/* [units.A3] acquire: we see the function's path and serial; pairs with [units.R3] */
	return atomic_load_explicit(&r->ask, memory_order_acquire);
}

static uint32_t serial_of(const struct runtime *r)
{
	/* relaxed: [units.A3] orders it */
	return atomic_load_explicit(&r->serial, memory_order_relaxed);
}

static unsigned units_count(const _Atomic uint32_t *nr)
{
	/* relaxed: an entry is read only if its own word says that it is used */
	return atomic_load_explicit(nr, memory_order_relaxed);
}

/* Asks a runtime that this thread never asked.  Sets *@missed if its module is being unloaded. */
static int ask_new(struct runtime *r, bool *missed)
{
	units_ask_fn *ask;
	char path[PATH_BYTES] = "";
	uint32_t serial;
	void *module = NULL;
	int code = 0;

	begin_asking();
	ask = ask_of(r);
	serial = serial_of(r);
	if (ask)
		/* relaxed: [units.A3] orders it */
		strncpy(path, atomic_load_explicit(&r->path, memory_order_relaxed), sizeof(path) - 1);
	end_asking();
	if (!ask || serial <= own->known)
		return 0;
	if (path[0])
		module = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
	*missed |= path[0] && !module;
	/* The module is held.  It is the right one if the function is still there. */
	if ((module || !path[0]) && ask_of(r) == ask && serial_of(r) == serial)
		code = ask();
	if (module)
		dlclose(module);
	return code;
}

static int ask_all_new(uint32_t latest)
{
	bool missed = false;
	int first = 0;

	for (unsigned i = 0; i < units_count(&units.nr_runtimes); i++) {
		const int code = ask_new(&units.runtimes[i], &missed);

		first = first ? first : code;
	}
	if (!missed)
		own->known = latest;
	return first;
}

int rnl__units_ask(void)
{
	/* relaxed: a runtime that is seen late is asked after a later job function */
	const uint32_t latest = atomic_load_explicit(&units.serial, memory_order_relaxed);
	int first;

	if (!own)
		return 0;
	first = latest == own->known ? 0 : ask_all_new(latest);
	begin_asking();
	for (unsigned i = 0; i < units_count(&units.nr_runtimes); i++) {
		units_ask_fn *ask = ask_of(&units.runtimes[i]);
		const int code = ask && serial_of(&units.runtimes[i]) <= own->known ? ask() : 0;

		first = first ? first : code;
	}
	end_asking();
	return first;
}

/* Waits until all threads have ended the calls that they are in.  The caller holds the lock. */
static void await_readers(void)
{
	/* [units.R1] full barrier: clear `ask`, then read who asks; pairs with [units.A1] */
	rnl__full_barrier();
	for (struct unit_reader *r = units.readers; r; r = r->next) {
		/* [units.R2] acquire: the thread's calls have ended; pairs with [units.A2] */
		const uint32_t seen = atomic_load_explicit(&r->sequence, memory_order_acquire);

		if (!(seen & 1) || r == own)
			continue;
		/* [units.R2] acquire: see above */
		while (atomic_load_explicit(&r->sequence, memory_order_acquire) == seen)
			rnl__nap(NAP_NS);
	}
}

/* ---- finding ------------------------------------------------------------- */

uint32_t rnl__units_find(const void *fn)
{
	const uintptr_t at = (uintptr_t)fn;
	uint32_t found = 0;

	for (unsigned i = 0; i < units_count(&units.nr_units); i++) {
		struct unit *u = &units.units[i];
		/* [units.F1] acquire: we see the unit's other words; pairs with [units.F2] */
		const uintptr_t end = atomic_load_explicit(&u->end, memory_order_acquire);
		/* [units.F3] acquire: if this is new, `end` has changed; pairs with [units.F4] */
		const uintptr_t text = atomic_load_explicit(&u->text, memory_order_acquire);
		/* [units.F3] acquire: see above */
		const uint32_t flags = atomic_load_explicit(&u->flags, memory_order_acquire);

		/* relaxed: [units.F3] orders it; an entry that changes is not a live function's */
		if (at < text || at >= end || atomic_load_explicit(&u->end, memory_order_relaxed) != end)
			continue;
		if (!(flags & RNL__UNIT_MODULE))
			return flags;
		found |= flags;
	}
	return found;
}

/* ---- adding, removing: with the lock ----------------------------------------- */

struct module {
	uintptr_t inside, text, end;
};

static int find_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct module *m = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const uintptr_t from = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) ||
		    m->inside < from || m->inside >= from + part->p_memsz)
			continue;
		m->text = from;
		m->end = from + part->p_memsz;
		return 1;
	}
	return 0;
}

/* Returns the file of the module with a function; "": the program. */
static const char *path_of(units_ask_fn *fn)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1((const void *)(uintptr_t)fn, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return "";
	return map->l_name ? map->l_name : "";
}

static void sum_up(void)
{
	uint32_t have = 0;

	for (unsigned i = 0; i < UNITS_MAX; i++) {
		const struct unit *u = &units.units[i];

		if (!u->id)
			continue;
		have |= RNL__UNITS_ANY;
		have |= u->given & RNL__CUDA_UNIT_NAMES_STREAM ? 0 : RNL__UNITS_SILENT;
		have |= u->given & RNL__CUDA_UNIT_NEEDS_CUDA ? RNL__UNITS_NEED_CUDA : 0;
		have |= rnl__unit_is_raw(u->given) ? RNL__UNITS_RAW : 0;
	}
	/* relaxed: see rnl__units_have() */
	atomic_store_explicit(&rnl__units_have, have, memory_order_relaxed);
}

static void set_unit(struct unit *u, const struct rnl__cuda_unit *unit)
{
	struct module module = { .inside = (uintptr_t)unit->last_error };
	uintptr_t text = (uintptr_t)unit->text, end = (uintptr_t)unit->text_end;
	uint32_t flags = unit->flags | RNL__UNIT_KNOWN;

	if (text >= end) {
		(void)dl_iterate_phdr(find_module, &module);
		text = module.text;
		end = module.end;
		flags |= RNL__UNIT_MODULE;
	}
	u->id = unit;
	u->given = unit->flags;
	/* [units.F4] release: `end` was cleared before this; pairs with [units.F3] */
	atomic_store_explicit(&u->text, text, memory_order_release);
	/* [units.F4] release: see above */
	atomic_store_explicit(&u->flags, flags, memory_order_release);
	/* [units.F2] release: the other words are written before this; pairs with [units.F1] */
	atomic_store_explicit(&u->end, end, memory_order_release);
}

/* From now on, the runtime is asked through this unit. */
static void set_runtime(struct runtime *r, const struct rnl__cuda_unit *unit)
{
	/* relaxed: under the lock */
	const uint32_t serial = atomic_load_explicit(&units.serial, memory_order_relaxed) + 1;

	r->id = unit->runtime;
	/* relaxed: [units.R3] publishes it */
	atomic_store_explicit(&r->path, path_of(unit->last_error), memory_order_relaxed);
	/* relaxed: [units.R3] publishes it */
	atomic_store_explicit(&r->serial, serial, memory_order_relaxed);
	/* [units.R3] release: path and serial are written before this; pairs with [units.A3] */
	atomic_store_explicit(&r->ask, unit->last_error, memory_order_release);
	/* relaxed: see rnl__units_ask() */
	atomic_store_explicit(&units.serial, serial, memory_order_relaxed);
}

static struct runtime *runtime_of(const void *id)
{
	for (unsigned i = 0; i < RUNTIMES_MAX; i++) {
		if (units.runtimes[i].id == id)
			return &units.runtimes[i];
	}
	return NULL;
}

static struct unit *unit_of(const struct rnl__cuda_unit *id)
{
	for (unsigned i = 0; i < UNITS_MAX; i++) {
		if (units.units[i].id == id)
			return &units.units[i];
	}
	return NULL;
}

static void count_place(_Atomic uint32_t *nr, ptrdiff_t place)
{
	if ((ptrdiff_t)units_count(nr) <= place)
		/* relaxed: see units_count() */
		atomic_store_explicit(nr, (uint32_t)place + 1, memory_order_relaxed);
}

static int units_add(const struct rnl__cuda_unit *unit)
{
	struct runtime *r = runtime_of(unit->runtime);
	struct unit *u = unit_of(NULL);

	if (unit_of(unit))
		return 0;
	if (!r)
		r = runtime_of(NULL);
	if (!u || !r)
		return -EAGAIN;
	set_unit(u, unit);
	count_place(&units.nr_units, u - units.units);
	if (!r->id)
		set_runtime(r, unit);
	count_place(&units.nr_runtimes, r - units.runtimes);
	sum_up();
	return 0;
}

int rnl__cuda_unit_add(const struct rnl__cuda_unit *unit)
{
	int ret;

	if (!unit)
		return rnl__invalid(NULL, "rnl__cuda_unit_add(): unit is NULL");
	if (unit->size < sizeof(*unit) || !unit->last_error || !unit->runtime)
		return rnl__invalid(NULL, "rnl__cuda_unit_add(): size is %u, not %zu, or "
				    "last_error or runtime is NULL", (unsigned)unit->size, sizeof(*unit));
	units_lock();
	ret = units_add(unit);
	units_unlock();
	if (ret)
		rnl__log(NULL, RNL_LOG_ERROR, "rnl__cuda_unit_add(): %u units or %u copies of the "
			 "CUDA runtime are registered: errors of another unit's CUDA calls may be "
			 "missed",
			 UNITS_MAX, RUNTIMES_MAX);
	return ret;
}

/* Returns a unit that uses the runtime, or NULL. */
static const struct rnl__cuda_unit *user_of(const void *runtime)
{
	for (unsigned i = 0; i < UNITS_MAX; i++) {
		if (units.units[i].id && units.units[i].id->runtime == runtime)
			return units.units[i].id;
	}
	return NULL;
}

void rnl__cuda_unit_remove(const struct rnl__cuda_unit *unit)
{
	const struct rnl__cuda_unit *other;
	struct runtime *r;
	struct unit *u;

	if (!unit)
		return;
	units_lock();
	u = unit_of(unit);
	if (u) {
		u->id = NULL;
		/* relaxed: [units.F4] orders it before the entry's next unit */
		atomic_store_explicit(&u->end, 0, memory_order_relaxed);
		r = runtime_of(unit->runtime);
		/* relaxed: under the lock */
		if (atomic_load_explicit(&r->ask, memory_order_relaxed) == unit->last_error) {
			other = user_of(unit->runtime);
			/* relaxed: [units.R1] orders it before we read who asks */
			atomic_store_explicit(&r->ask, NULL, memory_order_relaxed);
			r->id = NULL;
			if (other)
				set_runtime(r, other);
		}
		sum_up();
		await_readers();
	}
	units_unlock();
}
