/* SPDX-License-Identifier: MIT */
/*
 * Bulk copies and the barriers in shared memory that report their end: one function per instruction
 * of Hopper (sm_90) that specialised's kernels use.
 *
 * DESIGN
 * An mbarrier counts the missing arrivals and bytes of one phase; when both are zero, the next
 * phase begins.  Threads wait for a phase by its parity.  A bulk copy moves a multiple of 16 bytes
 * between addresses that are multiples of 16, and subtracts the bytes from an mbarrier in the
 * shared memory that it writes to.  The instructions are written in assembly, because some of
 * <cuda/ptx>'s functions for them are newer than CUDA 12.5.
 */
#ifndef SPECIALISED_BULK_CUH
#define SPECIALISED_BULK_CUH

#include <stdint.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

#define BULK static __device__ __forceinline__

BULK uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* Returns the same address in the shared memory of another block of the cluster. */
BULK uint32_t address_in_block(const void *p, uint32_t block)
{
	uint32_t there;

	asm("mapa.shared::cluster.u32 %0, %1, %2;"
	    : "=r"(there) : "r"(shared_address(p)), "r"(block));
	return there;
}

BULK uint32_t block_in_cluster(void)
{
	uint32_t rank;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	return rank;
}

/* Waits for all threads of the cluster; afterwards all of them see all earlier writes. */
BULK void cluster_meet(void)
{
	asm volatile("barrier.cluster.arrive.release;\n\t"
		     "barrier.cluster.wait.acquire;" ::: "memory");
}

BULK void mbarrier_init(uint64_t *bar, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
		     :: "r"(shared_address(bar)), "r"(arrivals) : "memory");
}

/* Call after mbarrier_init(), before threads meet: blocks and bulk copies then see the mbarrier. */
BULK void mbarrier_init_fence(void)
{
	asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;"
		     ::: "memory");
}

BULK void mbarrier_arrive(uint64_t *bar)
{
	asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
		     :: "r"(shared_address(bar)) : "memory");
}

/*
 * Arrives at @there, an address of address_in_block().  The caller has only read the stage, and no
 * longer needs the data.  A release for the whole cluster would also wait until the caller's device
 * memory stores are visible, although no other block reads them.
 */
BULK void mbarrier_arrive_in_block(uint32_t there)
{
	asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];"
		     :: "r"(there) : "memory");
}

/* Arrives, and makes the phase wait for @bytes of bulk copies. */
BULK void mbarrier_expect(uint64_t *bar, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
		     :: "r"(shared_address(bar)), "r"(bytes) : "memory");
}

#define MBARRIER_TRY(scope, ended, bar, parity) \
	asm volatile("{\n\t.reg .pred p;\n\t" \
		     "mbarrier.try_wait.parity.acquire." scope ".shared::cta.b64 p, [%1], %2;\n\t" \
		     "selp.u32 %0, 1, 0, p;\n\t}" \
		     : "=r"(ended) : "r"(shared_address(bar)), "r"(parity) : "memory")

/* Waits until the phase with a parity has ended.  On a new mbarrier, parity 1 has ended. */
BULK void mbarrier_wait(uint64_t *bar, uint32_t parity)
{
	uint32_t ended;

	do
		MBARRIER_TRY("cta", ended, bar, parity);
	while (!ended);
}

/* Like mbarrier_wait(), for data that another block of the cluster has written. */
BULK void mbarrier_wait_cluster(uint64_t *bar, uint32_t parity)
{
	uint32_t ended;

	do
		MBARRIER_TRY("cluster", ended, bar, parity);
	while (!ended);
}

/* Copies from device memory to this block's shared memory. */
BULK void bulk_copy_in(void *to, const void *from, uint32_t bytes, uint64_t *bar)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
		     " [%0], [%1], %2, [%3];"
		     :: "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
			"r"(shared_address(bar)) : "memory");
}

/* Copies to another block's shared memory; @to, @bar: addresses of address_in_block(). */
BULK void bulk_copy_across(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
	asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
		     " [%0], [%1], %2, [%3];"
		     :: "r"(to), "r"(shared_address(from)), "r"(bytes), "r"(bar) : "memory");
}

#undef MBARRIER_TRY
#undef BULK
#endif /* __CUDA_ARCH__ >= 900 */
#endif /* SPECIALISED_BULK_CUH */
