/* SPDX-License-Identifier: MIT */
/*
 * Model of a class's queue: lower() and refresh(), rnl__prioq_put() and rnl__prioq_take() of
 * src/class/prioq.c.
 *
 * The tree has four leaves, two nodes above them, and a root; a smaller key goes first.  At first
 * one leaf has a job.  Two threads put a job each, below the same node and below the other one.  Two
 * takers try to take a job each.
 *
 * Not modelled: store buffers, because each step is a read or an exchange that acquires and
 * releases, and unit/prioq runs on the simulated machine; the count of changes wraps after eight;
 * scans, which take as takers do; claims of slots; the way down from the root, whose end a take
 * checks; a second try of a take; rnl__prioq_holds() and take_any().
 *
 * Asserted: a job is taken once; when all threads have ended, no node has a larger key than a leaf
 * below it, so the next take finds each job.
 *
 * Broken variants:
 * BREAK_LOWER: a put does not exchange a node whose key is smaller already.  BREAK_COUNT: a word has
 * no count of its changes.  BREAK_READ: a refresh reads the children before the node.  BREAK_PATH: a
 * put lowers the root before the node.  Found: a job is left that no take finds.
 * BREAK_LEAF: a taker empties the leaf without an exchange.  Found: a job is taken twice.
 */
#define NL 4			/* leaves: words 0 to 3; nodes: 4, 5; the root: 6 */
#define ROOT 6
#define NONE 4			/* the largest key */

byte key[7] = NONE;
byte count[7];
byte held;			/* bits of leaves: the job was put and not taken */
byte running = 4;

/* Exchanges a word that is (k, n) by (to, n + 1); @did: it was. */
#ifdef BREAK_COUNT
#define is_still(word, k, n) (key[word] == k)
#else
#define is_still(word, k, n) (key[word] == k && count[word] == n)
#endif
#define change(word, to) key[word] = to; count[word] = (count[word] + 1) % 8
#define exchange(word, to) \
	atomic { did = is_still(word, k, n); if :: did -> change(word, to) :: else fi }
#define smaller(a, b) ((a) < (b) -> (a) : (b))
#define node_of(leaf) (NL + (leaf) / 2)

inline lower_one(word, to)
{
	do
	:: d_step { k = key[word]; n = count[word] };
#ifdef BREAK_LOWER
		if
		:: k <= to -> break
		:: else
		fi;
#endif
		exchange(word, smaller(k, to));
		if
		:: did -> break
		:: else
		fi
	od
}

inline refresh_one(word, child)
{
	do
	::
#ifdef BREAK_READ
		a = key[child];
		b = key[child + 1];
		d_step { k = key[word]; n = count[word] };
#else
		d_step { k = key[word]; n = count[word] };
		a = key[child];
		b = key[child + 1];
#endif
		exchange(word, smaller(a, b));
		if
		:: did -> break
		:: else
		fi
	od
}

inline put(leaf, to)
{
	d_step { change(leaf, to); held = held | 1 << leaf };	/* [prioq.L1] */
#ifdef BREAK_PATH
	lower_one(ROOT, to);
	lower_one(node_of(leaf), to)
#else
	lower_one(node_of(leaf), to);				/* [prioq.N2] */
	lower_one(ROOT, to)
#endif
}

inline finish()
{
	atomic {
		running--;
		if
		:: !running ->
			assert(key[4] <= key[0] && key[4] <= key[1] && key[5] <= key[2] && key[5] <= key[3]);
			assert(key[ROOT] <= key[4] && key[ROOT] <= key[5])
		:: else
		fi
	}
}

proctype putter(byte leaf, to)
{
	byte k, n;
	bool did;

	put(leaf, to);
	finish()
}

proctype taker()
{
	byte leaf, k, n, a, b;
	bool did;

	if
	:: key[ROOT] == NONE
	:: key[ROOT] != NONE ->
		d_step {
			leaf = (key[NL + 1] < key[NL] -> 2 : 0);
			leaf = (key[leaf + 1] < key[leaf] -> leaf + 1 : leaf);
			k = key[leaf]; n = count[leaf];
			did = false
		};
		if
		:: k != NONE ->
#ifdef BREAK_LEAF
			atomic { did = true; change(leaf, NONE) }
#else
			exchange(leaf, NONE)				/* [prioq.L3] */
#endif
		:: else
		fi;
		if
		:: did -> atomic { assert(held >> leaf & 1); held = held & (15 - (1 << leaf)) }
		:: else
		fi;
		refresh_one(node_of(leaf), leaf / 2 * 2);
		refresh_one(ROOT, NL)
	fi;
	finish()
}

init
{
	atomic {
		key[2] = 3; key[5] = 3; key[ROOT] = 3; held = 4;
		run putter(3, 1);
		run putter(0, 2);
		run taker();
		run taker()
	}
}
