/* SPDX-License-Identifier: MIT */
/* Concurrent copies both ways on several GPUs, by hand: a thread for each GPU and each way. */
#include "gpu/work.h"

#define BYTES ((size_t)8 << 20)
#define QUICK_BYTES ((size_t)1 << 20)
#define CHUNKS 12		/* of a GPU */
#define ROUNDS 4

enum { WAYS = 2 };		/* in and out */

static void copy_some(void *arg, unsigned index, cudaStream_t stream)
{
	const struct gpu_copies *c = arg;
	const unsigned gpu = index / WAYS, out = index % WAYS;
	char *dev = (char *)c->dev[gpu] + out * c->bytes;

	for (unsigned i = 0; i < c->nr; i++) {
		const size_t chunk = (gpu + i * c->nr_gpus) % c->nr_chunks;
		char *host = (char *)(out ? c->out : c->in) + chunk * c->bytes;

		gpu_ok(cudaMemcpyAsync(out ? host : dev, out ? dev : host, c->bytes,
				       cudaMemcpyDefault, stream), "a copy");
	}
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void allocate(struct gpu_copies *c, bool quick, unsigned nr_gpus)
{
	c->bytes = quick ? QUICK_BYTES : BYTES;
	c->nr = quick ? CHUNKS : ROUNDS * CHUNKS;
	c->nr_chunks = nr_gpus * CHUNKS;
	c->in = gpu_pinned(c->bytes * c->nr_chunks);
	c->out = gpu_pinned(c->bytes * c->nr_chunks);
}

void gpu_copies_start(struct gpu_copies *c, const struct bench_options *opt, unsigned nr_gpus)
{
	const int *gpus = opt->gpus;

	if (!c->nr)
		allocate(c, opt->quick, nr_gpus);
	c->nr_gpus = nr_gpus;
	for (unsigned i = nr_gpus; i--;) {
		gpu_enter(gpus[i]);
		c->dev[i] = gpu_memory(WAYS * c->bytes);
		atomic_init(&c->crews[i].next, i * WAYS);
		gpu_crew_start(&c->crews[i], gpus[i], RNL_STREAM_PRIVATE, WAYS, copy_some, c);
	}
	(void)gpu_copies_rate(c, nr_gpus);
}

double gpu_copies_rate(struct gpu_copies *c, unsigned nr_gpus)
{
	const uint64_t start = bench_now();

	for (unsigned i = 0; i < nr_gpus; i++)
		gpu_crew_begin(&c->crews[i]);
	for (unsigned i = 0; i < nr_gpus; i++)
		gpu_crew_end(&c->crews[i]);
	return (double)WAYS * nr_gpus * c->nr * (double)c->bytes / (double)(bench_now() - start);
}
